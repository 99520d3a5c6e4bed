"""Batch normalisation: frozen, and of batches that are padded or spread over several processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

__all__ = ["BatchNorm", "FrozenNorm", "running_statistics"]


class _Normalised(torch.autograd.Function):
    """[N, C, H, W] normalised by the mean and the variance of the samples that count, [C], and these two and the number
    of pixels.

    Each pass over the input is one of PyTorch's fused kernels, which compute in float32 whatever the input's type, and the
    gradient needs the input alone: the same in single operations takes some ten passes and as much memory in float32.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, valid: Tensor | None, eps: float, is_shared: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        counted = _where(valid, x)
        samples = torch.full((), len(x), device=x.device) if valid is None else valid.sum()
        pixels = (samples * (x.shape[2] * x.shape[3])).float()
        total = torch.cat([counted.sum((0, 2, 3), dtype=torch.float32), pixels[None]])
        _add_up(total, is_shared)
        pixels = total[-1]
        mean = total[:-1] / pixels.clamp(min=1)
        # The sum of x (x - mean), which is that of (x - mean)^2 and loses less than sums of squares do.
        ones = torch.ones_like(mean)
        _, squares, _ = _backward(counted, x, ones, mean, ones, 0.0, [False, True, False])
        _add_up(squares, is_shared)
        variance = (squares / pixels.clamp(min=1)).clamp(min=0)
        ctx.save_for_backward(x, weight, mean, variance, pixels, valid)
        ctx.eps, ctx.is_shared = eps, is_shared
        ctx.mark_non_differentiable(mean, variance, pixels)
        return functional.batch_norm(x, mean, variance, weight, bias, eps=eps), mean, variance, pixels

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, variance, pixels, valid = ctx.saved_tensors
        by_x, by_weight, by_bias = _backward(gradients[0], x, weight, mean, variance, ctx.eps, [True, True, True])
        sums = torch.stack([by_weight, by_bias])
        _add_up(sums, ctx.is_shared)
        # What comes back through the statistics: again a normalised x, for the samples that count.
        scale = weight * (variance + ctx.eps).rsqrt() / pixels.clamp(min=1)
        through = functional.batch_norm(x, mean, variance, scale * sums[0], scale * sums[1], eps=ctx.eps)
        return by_x - _where(valid, through), by_weight, by_bias, None, None, None


def _backward(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, variance: Tensor, eps: float, wanted: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a batch norm by fixed statistics for its input, weight and bias."""
    # Some of CUDA's kernels take what a forward keeps, and do without the running statistics.
    saved = mean, (variance + eps).rsqrt()
    gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, mean, variance, *saved, False, eps, wanted
    )
    return gradients


def _where(valid: Tensor | None, x: Tensor) -> Tensor:
    return x if valid is None else torch.where(valid[:, None, None, None], x, 0)


def _add_up(sums: Tensor, is_shared: bool) -> None:
    if is_shared:
        distributed.all_reduce(sums)


class FrozenNorm(nn.Module):
    """Batch normalisation whose statistics and parameters stay as they are: a scale and a shift for each channel.

    Loading makes the two of a state dict with the statistics, such as torchvision's.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("scale", torch.ones(channels))
        self.register_buffer("shift", torch.zeros(channels))

    def parts(self) -> tuple[Tensor, ...]:
        """Return what `scale_and_shift` depends on."""
        return self.scale, self.shift

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """Return scale and shift, [C]."""
        return self.scale, self.shift

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        names = [prefix + name for name in ("weight", "bias", "running_mean", "running_var")]
        if all(name in state_dict for name in names):
            weight, bias, mean, variance = (state_dict.pop(name) for name in names)
            state_dict.pop(f"{prefix}num_batches_tracked", None)
            scale = weight * (variance + self.eps).rsqrt()
            state_dict |= {f"{prefix}scale": scale, f"{prefix}shift": bias - mean * scale}
        super()._load_from_state_dict(state_dict, prefix, *rest)


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that can leave out samples, and share its statistics with the other processes.

    Unlike `torch.nn.SyncBatchNorm` it never waits for the GPU, and runs on the CPU too.
    """

    def __init__(self, channels: int, *, sync: bool = False) -> None:
        super().__init__(channels)
        self.sync = sync

    def parts(self) -> tuple[Tensor, ...]:
        """Return what `scale_and_shift` depends on."""
        return self.weight, self.bias, *self._running()

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """Return the scale and the shift that the running statistics amount to, [C]."""
        mean, variance = self._running()
        scale = self.weight * (variance + self.eps).rsqrt()
        return scale, self.bias - mean * scale

    def forward(self, input: Tensor, valid: Tensor | None = None) -> Tensor:  # noqa: A002 -- PyTorch's name
        """Normalise [N, C, H, W]; samples that are not `valid`, bool [N], do not count in the statistics."""
        is_shared = self.sync and distributed.is_initialized() and distributed.get_world_size() > 1
        if not self.training or (valid is None and not is_shared):
            return super().forward(input)
        y: Tensor
        y, *statistics = _Normalised.apply(input, self.weight, self.bias, valid, self.eps, is_shared)  # type: ignore[no-untyped-call]
        self._track(*statistics)
        return y

    def _running(self) -> tuple[Tensor, Tensor]:
        assert self.running_mean is not None and self.running_var is not None
        return self.running_mean, self.running_var

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, pixels: Tensor) -> None:
        """Move the running statistics towards those of a batch, unless it is empty."""
        momentum = torch.where(pixels > 0, 0.1 if self.momentum is None else self.momentum, 0.0)
        running_mean, running_variance = self._running()
        running_mean.lerp_(mean, momentum)
        running_variance.lerp_(variance * (pixels / (pixels - 1).clamp(min=1)), momentum)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)


def running_statistics(model: nn.Module) -> dict[str, Tensor]:
    """Return the running means and variances of a model's batch norms by their names in its state dict."""
    return {name: tensor for name, tensor in model.named_buffers() if name.endswith(("running_mean", "running_var"))}
