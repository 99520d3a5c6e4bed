"""Operators with a Triton kernel each, declared once with the defects and once without: see `load.py`.

Where there is no GPU, they run through Triton's interpreter (TRITON_INTERPRET=1).
"""

from typing import Any

import torch
from jaxtyping import Float16, Float32, Int32
from torch import Tensor

import opsmith

PLANTED = __name__.endswith("_planted")
BLOCK = 64
Vector = Float32[Tensor, "*n"]
Matrix = Float32[Tensor, "M N"]
Rows = Float32[Tensor, "M"]


def declare(name: str, grid: str | int = "cdiv(n, BLOCK)", block: int = BLOCK) -> Any:
    """Return the decorator of an operator with a kernel of that name."""
    kernel = opsmith.triton(f"in_triton_kernels.py:{name}", grid=grid, BLOCK=block, PLANTED=PLANTED)
    return opsmith.op(cuda=kernel, namespace=__name__, outputs="y")


@declare("rounded_factor")
def rounded_factor(x: Vector) -> Vector:
    return 2 * x


@declare("short_blocks")
def short_blocks(x: Vector) -> Vector:
    return 2 * x


@declare("last_element")
def last_element(x: Vector) -> Vector:
    return 3 * x


@declare("stores_past")
def stores_past(x: Vector) -> Vector:
    return 1 - x


@declare("loads_unmasked")
def loads_unmasked(x: Vector) -> Vector:
    return x + 1


@declare("lost_infinity")
def lost_infinity(x: Vector) -> Vector:
    return 0.5 * x


@declare("row_tail", grid="M", block=1024)
def row_tail(x: Matrix) -> Rows:
    return x.sum(1)


@declare("masked_maximum", grid="M")
def masked_maximum(x: Matrix) -> Rows:
    if x.shape[1] == 0:
        return x.new_full((x.shape[0],), -torch.inf)
    return x.amax(1)


@declare("last_block", grid="M")
def last_block(x: Matrix) -> Rows:
    return x.sum(1)


@declare("transposed", grid="N, cdiv(M, BLOCK)")
def transposed(x: Matrix) -> Float32[Tensor, "N M"]:
    return x.t().contiguous()


@declare("half_sums", grid="M")
def half_sums(x: Float16[Tensor, "M N"]) -> Float16[Tensor, "M"]:
    return x.float().square().mean(1).sqrt().half()


@declare("forgotten_bias", grid="M, cdiv(N, BLOCK)")
def forgotten_bias(x: Matrix, bias: Float32[Tensor, "N"] | None = None, factor: float = 2.0) -> Matrix:
    return x * factor if bias is None else x * factor + bias


@declare("empty_rows", grid="M")
def empty_rows(x: Matrix) -> Rows:
    return x.mean(1)


@declare("scales_input")
def scales_input(x: Vector) -> Vector:
    return 0.5 * x + 1


_SCALED = opsmith.triton("in_triton_kernels.py:scaled_rows", grid="M, cdiv(N, BLOCK)", BLOCK=BLOCK)
_SCALED_BACKWARD = opsmith.triton("in_triton_kernels.py:scaled_rows_backward", grid="M", BLOCK=BLOCK, PLANTED=PLANTED)


@opsmith.op(cuda=_SCALED, namespace=__name__, outputs="y")
def scaled_rows(x: Matrix, weight: Rows) -> Matrix:
    return x * weight[:, None]


@scaled_rows.backward(cuda=_SCALED_BACKWARD)
def scaled_rows_backward(grad_y: Matrix, x: Matrix, weight: Rows) -> tuple[Matrix, Rows]:
    return grad_y * weight[:, None], (grad_y * x).sum(1)


@declare("last_part_wins", grid="M, max(1, cdiv(N, BLOCK))" if PLANTED else "M")
def last_part_wins(x: Matrix) -> Rows:
    return x.sum(1)


@declare("narrow_offset", grid="M, cdiv(N, BLOCK)")
def narrow_offset(x: Matrix) -> Matrix:
    return 2 * x


_COUNTED = opsmith.triton("in_triton_kernels.py:counted", grid="cdiv(n, BLOCK)", BLOCK=BLOCK, PLANTED=PLANTED)


@opsmith.op(cuda=_COUNTED, namespace=__name__, mutates="total")
def counted(x: Vector, total: Int32[Tensor, "1"]) -> None:
    total += (x > 0).sum()


@declare("many_rows", grid="cdiv(N, BLOCK), M" if PLANTED else "M, cdiv(N, BLOCK)")
def many_rows(x: Matrix) -> Matrix:
    return 2 * x
