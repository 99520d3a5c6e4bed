"""What happens to an image on its way to the network: it is flipped, resized, and placed on a canvas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["canvas_of", "resized", "scaled_size"]


def canvas_of(size: tuple[int, int], canvases: Sequence[tuple[int, int]]) -> int:
    """Return which of `canvases` shows an image of `size` largest; sizes are (height, width)."""
    scales = [min(canvas[0] / size[0], canvas[1] / size[1]) for canvas in canvases]
    return scales.index(max(scales))


def scaled_size(
    size: tuple[int, int], shorter_side: int, longest_side: int, canvas: tuple[int, int]
) -> tuple[int, int]:
    """Return the height and width that an image of `size` is resized to.

    Its shorter side becomes `shorter_side`, unless the longer one would be longer than `longest_side`, as in torchvision's
    `GeneralizedRCNNTransform`, or the image larger than the canvas: then it is as large as these allow.
    """
    height, width = size
    # Fractions, because the rounded ratio of two floats may lose the last row.
    above, below = min(
        (
            (shorter_side, min(size)),
            (longest_side, max(size)),
            (canvas[0], height),
            (canvas[1], width),
        ),
        key=lambda ratio: ratio[0] / ratio[1],
    )
    return max(height * above // below, 1), max(width * above // below, 1)


def resized(image: npt.NDArray[np.uint8], size: tuple[int, int], flip: bool) -> Tensor:
    """Resize an image of [height, width, 3], bilinearly and with antialiasing: uint8 [3, *size], channels_last."""
    tensor = torch.from_numpy(image).permute(2, 0, 1)[None]
    if flip:
        tensor = tensor.flip(-1)
    return torch.nn.functional.interpolate(tensor, size, mode="bilinear", antialias=True)[0]
