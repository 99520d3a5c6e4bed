"""Operators whose reference refuses most generated calls, so that a defect is easily never called: see `load.py`."""

import itertools

import torch
from jaxtyping import Float, Float32, Int, Int64
from torch import Tensor

import opsmith

PLANTED = __name__.endswith("_planted")
KERNELS = opsmith.view("uncalled.cpp", flags=("-DPLANTED",) if PLANTED else ())
TYPES = (torch.float64, torch.float32)
declare = {"cpu": KERNELS, "namespace": __name__}
of_floats = {**declare, "dtypes": TYPES}
_BASIS = torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.25, 0.0, 1.0]])


@opsmith.op(**of_floats, outputs="y")
def rows_of(table: Float[Tensor, "V N"], index: Int64[Tensor, "M"]) -> Float[Tensor, "M N"]:
    return table[index]


@rows_of.backward(cpu=KERNELS, dtypes=TYPES)
def rows_of_backward(
    grad_y: Float[Tensor, "M N"], table: Float[Tensor, "V N"], index: Int64[Tensor, "M"]
) -> Float[Tensor, "V N"]:
    return torch.zeros_like(table).index_add(0, index, grad_y)


@opsmith.op(**of_floats)
def one_of_two(pair: Float[Tensor, "2 N"], index: Int64[Tensor, "N"]) -> Float[Tensor, "N"]:
    return pair.gather(0, index[None])[0]


@opsmith.op(**of_floats)
def far_rows(table: Float[Tensor, "V N"], index: Int64[Tensor, "M"]) -> Float[Tensor, "M N"]:
    return table[index]


@opsmith.op(**declare)
def signed_root(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    if x.dtype is not torch.float32:
        raise TypeError(f"x is {x.dtype}; this works on float32")
    return x.abs().sqrt().copysign(x)


@opsmith.op(**declare)
def in_basis(x: Float32[Tensor, "B 3"]) -> Float32[Tensor, "B 3"]:
    return x @ _BASIS


@opsmith.op(**declare)
def short_mantissa(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """A float32 without the last 13 bits of its mantissa, as TF32 has it."""
    if x.element_size() != 4:
        raise TypeError("only float32 has 32 bits")
    return (x.detach().view(torch.int32) & ~0x1FFF).view(torch.float32)


@opsmith.op(**of_floats)
def of_segments(x: Float[Tensor, "N"], starts: Int[Tensor, "S+1"]) -> Float[Tensor, "S"]:
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != len(x) or (starts.diff() < 0).any():
        raise ValueError("starts go from 0 to the size of x")
    sums = [x[a:b].sum() for a, b in itertools.pairwise(starts)]
    return torch.stack(sums) if sums else x.new_zeros(0)


if not PLANTED:  # without them the reference refuses every call, and nothing is known of the kernel

    @of_segments.examples
    def segments():
        yield torch.randn(7), torch.tensor([0, 3, 3, 7])
        yield torch.randn(40), torch.tensor([0, 1, 39, 40, 40])
