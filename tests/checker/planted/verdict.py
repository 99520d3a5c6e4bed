"""Operators whose defects tempt a verdict into a wrong name. Declared twice, with and without them: see `load.py`."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("verdict.cpp", flags=FLAGS)
Vector = Float[Tensor, "N"]
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
declare = {"cpu": KERNELS, "namespace": __name__}


def _wide(x: Tensor) -> Tensor:
    """Sums are made in float32 at least."""
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(**declare, nondifferentiable="x")
def median(x: Matrix) -> Rows:
    """The lower median of each row; a row of nothing has 0."""
    if x.shape[1] == 0:
        return x.new_zeros(x.shape[0])
    return x.median(1).values


@opsmith.op(**declare)
def weighted_mean(x: Matrix, w: Vector) -> Rows:
    return ((_wide(x) * _wide(w)).sum(1) / _wide(w).sum()).to(x.dtype)


@opsmith.op(**declare)
def ring(x: Vector) -> Vector:
    return x + 1


@opsmith.op(**declare)
def prefix(x: Vector) -> Vector:
    return _wide(x).cumsum(0).to(x.dtype)


@opsmith.op(**declare, outputs=("y", "scale"), saved="scale")
def normalize(x: Matrix) -> tuple[Matrix, Rows]:
    """Each row divided by its root mean square; the factor is for the backward."""
    scale = torch.rsqrt(_wide(x).square().sum(1) / max(x.shape[1], 1) + 1e-5)
    return (_wide(x) * scale[:, None]).to(x.dtype), scale.to(x.dtype)


@normalize.backward(cpu=KERNELS)
def normalize_backward(grad_y: Matrix, x: Matrix, scale: Rows) -> Matrix:
    wide, factor = _wide(x), _wide(scale)[:, None]
    mean = (_wide(grad_y) * wide).sum(1, keepdim=True) / max(x.shape[1], 1)
    return (factor * _wide(grad_y) - factor**3 * wide * mean).to(x.dtype)


@opsmith.op(**declare)
def lanes(x: Vector) -> Vector:
    return x * 3


@opsmith.op(**declare, nondifferentiable="x")
def exponent(x: Vector) -> Int64[Tensor, "N"]:
    """How often a number must be doubled until it is 1 or more; 0 for what never is."""
    wide = x.double().abs()
    doublings = (1 - torch.frexp(wide).exponent).clamp(min=0).long()
    return torch.where((wide > 0) & wide.isfinite(), doublings, 0)


@opsmith.op(**declare, nondifferentiable="x")
def root(x: Vector) -> Vector:
    return x.abs().sqrt()


@opsmith.op(**declare)
def last_sum(x: Matrix) -> Rows:
    """The sum of each row, from its end."""
    return _wide(x).sum(1).to(x.dtype)


@opsmith.op(**declare)
def mean_square(x: Matrix) -> Rows:
    return (_wide(x).square().sum(1) / max(x.shape[1], 1)).to(x.dtype)
