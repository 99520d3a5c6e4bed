"""An exponential low-pass filter with a learned decay, as a PyTorch operator."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

import opsmith

__all__ = ["LowPass", "lowpass"]


@opsmith.op(cpu="lowpass.cpp", cuda="lowpass.cu", outputs="y")
def lowpass(x: Float[Tensor, "B N"], decay: Float[Tensor, "B"]) -> Float[Tensor, "B N"]:
    """First-order low-pass filter of each row: y[0] = x[0], then y[n] = decay * y[n-1] + (1 - decay) * x[n]."""
    y = list(x.unbind(1)[:1])
    for step in x.unbind(1)[1:]:
        y.append(decay * y[-1] + (1 - decay) * step)
    return torch.stack(y, dim=1) if y else torch.empty_like(x)


@lowpass.backward(cpu="lowpass.cpp", cuda="lowpass.cu")
def lowpass_backward(
    grad_y: Float[Tensor, "B N"], x: Float[Tensor, "B N"], decay: Float[Tensor, "B"], y: Float[Tensor, "B N"]
) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B"]]:
    """The gradients of x and decay: the same filter, run backwards in time over grad_y."""
    grad_x = []
    grad_decay = torch.zeros_like(decay)
    carry = torch.zeros_like(decay)  # what all later outputs want of y[n]
    for n in reversed(range(x.shape[1])):
        carry = grad_y[:, n] + decay * carry
        if n == 0:
            grad_x.append(carry)
        else:
            grad_x.append((1 - decay) * carry)
            grad_decay = grad_decay + carry * (y[:, n - 1] - x[:, n])
    return torch.stack(grad_x[::-1], dim=1) if grad_x else torch.empty_like(x), grad_decay


class LowPass(nn.Module):
    """`lowpass` over the last dimension of [..., channels, time], with one learned decay for each channel."""

    def __init__(self, channels: int, decay: float = 0.5) -> None:
        super().__init__()
        # The sigmoid keeps every decay between 0 and 1, where the filter is stable.
        self.logit = nn.Parameter(torch.logit(torch.full((channels,), decay)))

    @property
    def decay(self) -> Tensor:
        """The decay of each channel."""
        return torch.sigmoid(self.logit)

    def forward(self, x: Tensor) -> Tensor:
        """Return the filtered series, of x's shape."""
        rows = x.flatten(0, -2)
        decay = self.decay.to(x.dtype).expand(x.shape[:-1]).flatten()
        return lowpass(rows, decay).view(x.shape)
