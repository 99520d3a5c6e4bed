"""roi_align and RoIAlign by the arguments of `mmcv.ops`, whose order and defaults torchvision does not have."""

from __future__ import annotations

from torch import Tensor, nn

from opsmith.ops._arguments import check_texts
from opsmith.ops._boxes.boxes import BroadcastingList2, pair
from opsmith.ops.roi_align import functions

__all__ = ["RoIAlign", "roi_align"]


def roi_align(
    input: Tensor,  # noqa: A002 -- as mmcv calls it
    rois: Tensor,
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    pool_mode: str = "avg",
    aligned: bool = True,
) -> Tensor:
    """Return `opsmith.ops.roi_align.roi_align` of features [N, C, H, W] and boxes [K, 5]; the bins are means.

    Raises NotImplementedError for the `pool_mode` "max".
    """
    check_texts("roi_align", pool_mode=pool_mode)
    if pool_mode != "avg":
        raise NotImplementedError(f"roi_align(): pool_mode is {pool_mode!r:.60}; there is 'avg' alone")
    return functions.roi_align(input, rois, output_size, spatial_scale, sampling_ratio, aligned)


class RoIAlign(nn.Module):
    """`roi_align` as a module, called with features and boxes. `use_torchvision` changes nothing."""

    def __init__(
        self,
        output_size: BroadcastingList2[int],
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        pool_mode: str = "avg",
        aligned: bool = True,
        use_torchvision: bool = False,
    ) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = pair("RoIAlign", output_size), float(spatial_scale)
        self.sampling_ratio, self.pool_mode, self.aligned = int(sampling_ratio), pool_mode, aligned
        self.use_torchvision = use_torchvision

    def forward(self, input: Tensor, rois: Tensor) -> Tensor:  # noqa: A002
        """Return the features of each box: [K, C, output height, output width]."""
        return roi_align(
            input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.pool_mode, self.aligned
        )

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio}, "
            f"pool_mode={self.pool_mode}, aligned={self.aligned}"
        )
