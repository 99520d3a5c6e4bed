"""Measures the gradient where the one published with the LLTM tutorial fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsmith.spec.definition import Device

__all__ = ["POINTS", "Slope", "measure_slopes", "published_slope"]

# The candidate gate. exp overflows float32 above 88.72.
POINTS = (-20.0, -1.0, 0.0, 1.0, 88.0, 88.8, 100.0, 1000.0)

# The sigmoid of this input gate is 1 in float32, so the cell's slope is elu's alone.
_OPEN = 40.0

_TOLERANCE = 4 * torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class Slope:
    """The derivative of the new cell by the candidate gate: exact, as the tutorial computes it, and by opsmith."""

    gate: float
    device: str
    exact: float
    published: float
    found: float

    @property
    def is_right(self) -> bool:
        """Whether opsmith's is right within four units of float32's epsilon."""
        return abs(self.found - self.exact) <= _TOLERANCE

    @property
    def is_published_right(self) -> bool:
        """Whether the tutorial's is."""
        return abs(self.published - self.exact) <= _TOLERANCE


def published_slope(gate: Tensor) -> Tensor:
    """The derivative of elu as the tutorial has it (Goldsborough 2018, `d_elu`)."""
    exponential = gate.exp()
    mask = (exponential - 1 < 0).type_as(gate)
    return (gate > 0).type_as(gate) + mask * exponential


def measure_slopes(devices: Sequence[Device], kernel: Callable[..., Any] | None = None) -> tuple[Slope, ...]:
    """Return the slopes at every point, in float32; `kernel` takes gates and cell and is lltm_gates by default."""
    from opsmith.ops.lltm import lltm_gates

    exact = _slope(lltm_gates.reference, torch.float64, "cpu")
    published = published_slope(torch.tensor(POINTS)).tolist()
    slopes = []
    for device in devices:
        found = _slope(kernel or lltm_gates, torch.float32, device)
        slopes += [Slope(gate, device, *values) for gate, *values in zip(POINTS, exact, published, found, strict=True)]
    return tuple(slopes)


def _slope(kernel: Callable[..., Any], dtype: torch.dtype, device: str) -> list[float]:
    candidate = torch.tensor(POINTS, dtype=dtype, device=device)
    gates = torch.stack([torch.full_like(candidate, _OPEN), torch.zeros_like(candidate), candidate], dim=1)
    gates.requires_grad_()
    _, new_cell = kernel(gates, torch.zeros(len(POINTS), 1, dtype=dtype, device=device))
    (grad,) = torch.autograd.grad(new_cell.sum(), gates)
    slopes: list[float] = grad[:, 2].tolist()
    return slopes
