"""Operators whose kernels are wrong for some numbers, texts and combinations of options: see `load.py`."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("options.cpp", flags=FLAGS)
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
TYPES = (torch.float64, torch.float32)
declare = {"cpu": KERNELS, "namespace": __name__, "dtypes": TYPES}


@opsmith.op(**declare)
def leaky(x: Vector, slope: float = 0.01) -> Vector:
    return torch.where(x > 0, x, slope * x)


@opsmith.op(**declare)
def shifted(x: Vector, by: float = 0.25) -> Vector:
    return x * by + 1


@opsmith.op(**declare)
def smooth_l1(x: Vector, beta: float = 1.0) -> Vector:
    size = x.abs()
    return torch.where(size < beta, 0.5 * x * x / (beta or 1.0), size - 0.5 * beta)


@opsmith.op(**declare)
def rolled(x: Matrix, by: int = 1) -> Matrix:
    return x.roll(by, 1)


@opsmith.op(**declare)
def column(x: Matrix, place: int = 0) -> Rows:
    return x[:, place].clone()


@opsmith.op(**declare)
def powers(x: Vector, order: int = 2) -> Vector:
    if order < 0:
        raise ValueError(f"order is {order}; it is 0 or more")
    return x**order


@opsmith.op(**declare)
def affine(
    x: Matrix,
    weight: Float[Tensor, "N"] | None = None,
    bias: Float[Tensor, "N"] | None = None,
    scale: Float[Tensor, "B"] | None = None,
) -> Matrix:
    y = x if weight is None else x * weight
    y = y if bias is None else y + bias
    return y.clone() if scale is None else y * scale[:, None]


@opsmith.op(**declare)
def sums(x: Matrix, reverse: bool = False, exclusive: bool = False) -> Matrix:
    y = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    return y - x if exclusive else y


@opsmith.op(**declare)
def reduced(x: Matrix, how: str = "sum") -> Rows:
    if how == "sum":
        return x.sum(1)
    if how in ("mean", "average"):
        return x.mean(1)
    if how == "range":
        return x.amax(1) - x.amin(1)
    raise ValueError(f"how is {how!r}; it is sum, mean, average or range")


@opsmith.op(**declare)
def activated(x: Vector, by: Literal["none", "relu", "square"] = "none") -> Vector:
    kinds = {"none": x.clone, "relu": x.relu, "square": x.square}
    return kinds[by]()


@opsmith.op(**declare)
def scaled(x: Vector, scale: float | None = None) -> Vector:
    return x + 1 if scale is None else x * scale


@opsmith.op(**declare)
def weighed_ends(x: Matrix, ends: list[int] = [1, 1]) -> Rows:  # noqa: B006 - a schema's default
    return ends[0] * x[:, 0] + 2 * ends[1] * x[:, -1]


@opsmith.op(**declare)
def gated(x: Matrix, bias: Float[Tensor, "N"] | None = None, invert: bool = False) -> Matrix:
    y = x if bias is None else x + bias
    return 1 - y if invert else y.clone()


@opsmith.op(**declare)
def raised(x: Vector, exponent: float = 2.0) -> Vector:
    return x.abs() ** exponent


@opsmith.op(**declare)
def squashed(x: Vector, scale: float = 1.0) -> Vector:
    return x.tanh() * scale


@opsmith.op(**declare)
def lengthened(x: Vector, length: int) -> Float[Tensor, "length"]:
    if x.shape[0] == 0:
        raise ValueError("x has no elements to repeat")
    return x[torch.arange(length, device=x.device) % x.shape[0]]


@opsmith.op(**declare)
def three_taps(x: Matrix, taps: list[float]) -> Matrix:
    if len(taps) != 3:
        raise ValueError(f"there are {len(taps)} taps; it takes 3")
    return taps[0] * x.roll(1, 1) + taps[1] * x + taps[2] * x.roll(-1, 1)


@three_taps.examples
def _three_taps() -> list[tuple[Tensor, list[float]]]:
    return [(torch.randn(3, 5, generator=torch.Generator().manual_seed(0)), [0.25, 0.5, 0.125])]
