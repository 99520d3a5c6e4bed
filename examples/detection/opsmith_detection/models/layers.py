"""A convolution with its normalisation, which becomes part of the convolution wherever it is a fixed scale and shift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from opsmith.ops import DeformConv2d, deform_conv2d
from opsmith_detection.config import NORM_GROUPS
from opsmith_detection.models.fused import add_bias, conv_relu, fuses
from opsmith_detection.models.norms import BatchNorm, FrozenNorm

__all__ = ["ConvNorm", "Norm", "computed_again", "without_copies"]

Norm = Literal["frozen", "batch", "sync", "group"]


def computed_again(function: Callable[..., Tensor], *inputs: Tensor, enabled: bool = True) -> Tensor:
    """Return what a function makes of tensors. If enabled, it is called again for the backward, and keeps inputs alone."""
    if not enabled:
        return function(*inputs)
    # Calls that share a weight would share autocast's copy of it, too, and sum up their gradients in 16 bits.
    with without_copies(inputs[0].device):
        result: Tensor = checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)
    return result


def without_copies(device: torch.device) -> torch.autocast:
    """Return the context in which autocast, if it is enabled, keeps no copies of weights in 16 bits."""
    return torch.autocast(device.type, enabled=torch.is_autocast_enabled(device.type), cache_enabled=False)


class _Kind(NamedTuple):
    """What a folded weight is for: another one is needed for each."""

    dtype: torch.dtype
    device: torch.device
    in_inference_mode: bool


class _Folded(NamedTuple):
    """Weight and shift of a convolution and the fixed normalisation behind it, and what they were made of."""

    made_of: list[tuple[int, int]]
    weight: Tensor
    shift: Tensor

    def made_again(self, made_of: list[tuple[int, int]], weight: Tensor, shift: Tensor) -> _Folded:
        """Return these with other numbers at the same places."""
        return _Folded(made_of, self.weight.copy_(weight), self.shift.copy_(shift))


class ConvNorm(nn.Module):
    """A square convolution, its normalisation, and if wanted a ReLU.

    Args:
        norm: without one the convolution has a bias. "frozen" and, in evaluation, "batch" and "sync" are a scale and a
            shift for each channel: these go into the convolution's weight and bias, so no activation is normalised, or kept
            for it.
        deformable: its offsets and masks come from a convolution that is 0 at first (DCN v2,
            https://arxiv.org/abs/1811.11168).
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        norm: Norm | None = None,
        relu: bool = True,
        deformable: bool = False,
    ) -> None:
        super().__init__()
        self.relu, self.stride, self.padding = relu, stride, (kernel - 1) // 2
        self.conv: nn.Conv2d | DeformConv2d
        self.offsets: nn.Conv2d | None = None
        if deformable:
            self.conv = DeformConv2d(inputs, outputs, kernel, stride, self.padding, bias=norm is None, autocast="low")
            self.offsets = nn.Conv2d(inputs, 3 * kernel**2, kernel, stride, self.padding)
        else:
            self.conv = nn.Conv2d(inputs, outputs, kernel, stride, self.padding, bias=norm is None)
        self.norm: nn.Module | None = None
        if norm == "frozen":
            self.norm = FrozenNorm(outputs)
        elif norm == "group":
            self.norm = nn.GroupNorm(NORM_GROUPS, outputs)
        elif norm is not None:
            self.norm = BatchNorm(outputs, sync=norm == "sync")
        self._folded: dict[_Kind, _Folded] = {}
        self.register_load_state_dict_post_hook(_fold_again)  # type: ignore[no-untyped-call]
        self.initialise("kaiming")

    def initialise(self, kind: Literal["kaiming", "uniform", "normal"]) -> None:
        """Draw new weights: as for ReLUs (He et al., 2015), as those of a pyramid, or with a deviation of 0.01."""
        if kind == "kaiming":
            nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")
        elif kind == "uniform":
            nn.init.kaiming_uniform_(self.conv.weight, a=1)
        else:
            nn.init.normal_(self.conv.weight, std=0.01)
        if self.conv.bias is not None:
            nn.init.zeros_(self.conv.bias)
        if self.offsets is not None:
            for parameter in self.offsets.parameters():
                nn.init.zeros_(parameter)

    def train(self, mode: bool = True) -> ConvNorm:
        """Switch between training and evaluation."""
        if isinstance(self.norm, BatchNorm):
            self._folded.clear()  # the replay of a graph that moves statistics, unlike a call, tells nobody
        return super().train(mode)

    def forward(
        self, x: Tensor, residual: Tensor | None = None, shift: Tensor | None = None, valid: Tensor | None = None
    ) -> Tensor:
        """Return [N, outputs, H, W]; `residual` and `shift`, [outputs], are added in front of the ReLU.

        `valid`, bool [N], says which samples count where statistics are made of the batch.
        """
        fixed = self._fixed()
        if fixed is not None:
            weight, bias = fixed
            if shift is not None:
                bias, shift = bias + shift, None
            may_fuse = self.offsets is None and fuses(x, weight)
            if may_fuse and self.relu:
                return conv_relu(x, weight, bias, residual, self.stride, self.padding)
            if may_fuse and bias.requires_grad:
                x = add_bias(self._convolve(x, weight, None), bias)
            else:
                x = self._convolve(x, weight, bias)
        else:
            assert self.norm is not None
            x = self._convolve(x, self.conv.weight, None)
            x = self.norm(x, valid) if isinstance(self.norm, BatchNorm) else self.norm(x)
        if shift is not None:
            x = add_bias(x, shift)
        if residual is not None:
            x = x.add_(residual)
        return x.relu_() if self.relu else x

    def without_bias(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what the layer makes of x, for one without a ReLU, and what is still to be added to it, [outputs].

        Elsewhere that may take no pass over the activations, or one over fewer of them.
        """
        fixed = self._fixed()
        if fixed is None or self.offsets is not None:
            return self(x), None
        weight, bias = fixed
        return self._convolve(x, weight, None), bias

    def _fixed(self) -> tuple[Tensor, Tensor] | None:
        """Return weight and bias of a convolution that is all of the layer but its ReLU; None where statistics are made."""
        if self.norm is None:
            assert self.conv.bias is not None
            return self.conv.weight, self.conv.bias
        if isinstance(self.norm, FrozenNorm) or (isinstance(self.norm, BatchNorm) and not self.norm.training):
            return self._fold(self.norm)
        return None

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.offsets is None:
            return functional.conv2d(x, weight, bias, self.stride, self.padding)
        offsets = self.offsets(x)
        taps = offsets.shape[1] // 3
        mask = offsets[:, 2 * taps :].sigmoid()
        return deform_conv2d(
            x, offsets[:, : 2 * taps], weight, bias, self.stride, self.padding, 1, mask, autocast="low"
        )

    def _fold(self, norm: FrozenNorm | BatchNorm) -> tuple[Tensor, Tensor]:
        """Return the convolution's weight times the norm's scale, and the shift.

        With a weight or a norm that is trained they are made at each call. Otherwise they are made once, in the type to
        compute in, and stay at their place: CUDA graphs read them there. A graph makes those of running statistics itself,
        since a graph of training moves these.
        """
        weight = self.conv.weight
        parts, device = (weight, *norm.parts()), weight.device.type
        if torch.compiler.is_compiling() or any(part.requires_grad for part in parts):
            return _product(weight, norm)
        is_capturing = device == "cuda" and torch.cuda.is_current_stream_capturing()
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        kind = _Kind(dtype, weight.device, torch.is_inference_mode_enabled())
        known, made_of = self._folded.get(kind), [(part.data_ptr(), part._version) for part in parts]
        if is_capturing and (isinstance(norm, BatchNorm) or known is None or known.made_of != made_of):
            return _product(weight, norm, dtype)  # of the graph's memory, which is not to be kept
        if known is None:
            known = self._folded[kind] = _Folded(made_of, *_product(weight, norm, dtype))
        elif known.made_of != made_of:
            known = self._folded[kind] = known.made_again(made_of, *_product(weight, norm, dtype))
        return known.weight, known.shift


def _product(weight: Tensor, norm: FrozenNorm | BatchNorm, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    scale, shift = norm.scale_and_shift()
    folded = weight * scale[:, None, None, None]
    return (folded, shift) if dtype is None else (folded.to(dtype), shift.to(dtype))


def _fold_again(layer: ConvNorm, _: object) -> None:
    """Bring what graphs read up to date with weights that were loaded."""
    for kind, known in layer._folded.items():
        assert isinstance(layer.norm, FrozenNorm | BatchNorm)
        with torch.inference_mode(kind.in_inference_mode), torch.no_grad():
            known.made_again(known.made_of, *_product(layer.conv.weight, layer.norm, kind.dtype))
