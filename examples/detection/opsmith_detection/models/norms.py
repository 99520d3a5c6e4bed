"""Batch normalisation: frozen, and of batches that are padded or spread over several processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn

__all__ = ["BatchNorm", "FrozenNorm"]


class _Added(torch.autograd.Function):
    """The sum over all processes, whose gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        distributed.all_reduce(total)
        return total


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
        samples, channels, height, width = input.shape
        counts = input.new_ones(samples, dtype=torch.float32) if valid is None else valid.float()
        wide = input.float()
        # Not counts @ sums: autocast would make that of half precision.
        sums = (wide.sum((2, 3)) * counts[:, None]).sum(0)
        total = torch.cat([sums, counts.sum()[None] * (height * width)])
        if is_shared:
            total = _added(total)
        pixels = total[channels].clamp(min=1)
        mean = total[:channels] / pixels
        centred = wide - mean[:, None, None]
        variance = (centred.square().sum((2, 3)) * counts[:, None]).sum(0)
        if is_shared:
            variance = _added(variance)
        variance = variance / pixels
        self._track(mean.detach(), variance.detach(), total[channels].detach())
        scale = self.weight * (variance + self.eps).rsqrt()
        return (centred * scale[:, None, None] + self.bias[:, None, None]).to(input.dtype)

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


def _added(value: Tensor) -> Tensor:
    total: Tensor = _Added.apply(value)  # type: ignore[no-untyped-call]
    return total
