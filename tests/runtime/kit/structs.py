"""Operators that take a dataclass: every kind of field, two of them, a derived backward, and a native kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

import opsmith


@dataclass(frozen=True)
class Window:
    """Every kind of field."""

    size: int
    gain: float = 1.0
    is_negated: bool = False
    name: str = "box"
    step: int | None = None
    limit: float | None = None
    is_shifted: bool | None = None

    @property
    def offset(self) -> float:
        """A number that depends on the fields that are not always there."""
        total = -100.0 if self.step is None else float(self.step)
        total += -300 if self.is_shifted is None else 64 * self.is_shifted
        return total + len(self.name)


@dataclass(frozen=True)
class Scale:
    factor: float = 0.5


@opsmith.op(cpu="structs.cpp", outputs="y")
def windowed(x: Float[Tensor, "B N"], window: Window, flip: bool = False, *, scale: Scale) -> Float[Tensor, "B N+size"]:
    """Pad a signal and scale it, and add a number that depends on every field."""
    y = torch.nn.functional.pad(x, (0, window.size)) * (window.gain * scale.factor)
    y = (-y if window.is_negated else y) + window.offset
    y = y if window.limit is None else y.clamp(-window.limit, window.limit)
    return y.flip(1) if flip else y


@windowed.backward()
def windowed_backward(
    grad_y: Float[Tensor, "B N+size"], x: Float[Tensor, "B N"], window: Window, flip: bool, scale: Scale
) -> Float[Tensor, "B N"]: ...


@windowed.examples
def _examples() -> list[object]:
    return [
        (torch.randn(2, 3), Window(2, limit=1.0)),
        {"x": torch.randn(1, 4), "window": Window(0), "scale": Scale(2.0)},
    ]


@windowed.flops
def _flops(x: Tensor, window: Window, flip: bool, scale: Scale) -> int:
    return x.shape[1] * window.size


@opsmith.op(cpu=opsmith.native("structs_native.cpp", entry="kit::scaled"), outputs="y")
def scaled(x: Float64[Tensor, "N"], window: Window) -> Float64[Tensor, "N"]:
    """Scale by a number that depends on every field."""
    return x * (window.gain + window.size + window.is_negated + window.offset + (window.limit or 0))


@opsmith.op(outputs="y")
def plain(x: Float[Tensor, "N"], scale: Scale = Scale(3.0)) -> Float[Tensor, "N"]:
    """An operator without a kernel, whose dataclass need not be given."""
    return x * scale.factor


@plain.backward()
def plain_backward(grad_y: Float[Tensor, "N"], factor: float) -> Float[Tensor, "N"]:
    """The gradient, from one field alone."""
    return grad_y * factor
