"""Values that an argument of an operator should not have, by what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor, nn

__all__ = ["ANY", "FLOATS", "INTS", "NUMERIC_EXTREMES", "TENSORS"]


def _resized(dimension: int, by: int) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        sizes = list(tensor.shape)
        if not -len(sizes) <= dimension < len(sizes):
            return tensor
        sizes[dimension] = max(0, sizes[dimension] + by)
        return tensor.new_ones(sizes)

    return change


def _cast(name: str) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor.to(getattr(torch, name))


def _filled(value: float) -> Callable[[Tensor], Tensor]:
    return lambda tensor: torch.full_like(tensor, value) if tensor.is_floating_point() else tensor


def _first_filled(value: float) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        changed = tensor.clone()
        if changed.numel() and (changed.is_floating_point() or math.isfinite(value)):
            changed.view(-1)[0] = value if changed.is_floating_point() else int(value)
        return changed

    return change


def _apart(tensor: Tensor) -> Tensor:
    """Every second element of a larger tensor."""
    return tensor.repeat_interleave(2, -1)[..., ::2] if tensor.ndim else tensor


def _overlapping(tensor: Tensor) -> Tensor:
    return tensor.new_ones(tensor.numel() + 1).as_strided(tensor.shape, [1] * tensor.ndim)


def _virtual(size: int) -> Callable[[Tensor], Tensor]:
    """As many rows as fit into no memory, all of them the same."""
    return lambda tensor: tensor[:1].expand(size, *tensor.shape[1:]) if tensor.ndim and tensor.shape[0] else tensor


# Of a tensor: another one, or something that is none.
TENSORS: dict[str, Callable[[Tensor], Any]] = {
    "float16": _cast("float16"),
    "bfloat16": _cast("bfloat16"),
    "float64": _cast("float64"),
    "float32": _cast("float32"),
    "float8": _cast("float8_e4m3fn"),
    "complex64": _cast("complex64"),
    "int64": _cast("int64"),
    "int32": _cast("int32"),
    "uint8": _cast("uint8"),
    "uint16": _cast("uint16"),
    "bool": _cast("bool"),
    "meta": lambda tensor: tensor.to("meta"),
    "sparse": lambda tensor: tensor.to_sparse(),
    "csr": lambda tensor: tensor.flatten(1).to_sparse_csr() if tensor.ndim > 1 else tensor,
    "negated view": lambda tensor: torch.view_as_complex(torch.ones(*tensor.shape, 2)).conj().imag,
    "a parameter": lambda tensor: nn.Parameter(tensor) if tensor.is_floating_point() else tensor,
    "part of a graph": lambda tensor: tensor.clone().requires_grad_() * 1 if tensor.is_floating_point() else tensor,
    "a dimension more": lambda tensor: tensor.unsqueeze(0),
    "a dimension less": lambda tensor: tensor[0] if tensor.ndim and tensor.shape[0] else tensor,
    "five dimensions more": lambda tensor: tensor[(None,) * 5],
    "70 dimensions": lambda tensor: torch.ones((1,) * 70),
    "a number": lambda tensor: torch.tensor(1.0),
    "no elements": lambda tensor: tensor[:0] if tensor.ndim else tensor,
    "no columns": lambda tensor: tensor[..., :0] if tensor.ndim else tensor,
    **{f"{by:+} in dimension {dim}": _resized(dim, by) for dim in (0, 1, 2, -1) for by in (-1, 1, 40)},
    "transposed": lambda tensor: tensor.mT if tensor.ndim > 1 else tensor,
    "laid out transposed": lambda tensor: tensor.mT.contiguous().mT if tensor.ndim > 1 else tensor,
    "apart": _apart,
    "expanded": lambda tensor: tensor[:1].expand_as(tensor) if tensor.ndim and tensor.shape[0] else tensor,
    "overlapping": _overlapping,
    "behind an offset": lambda tensor: torch.cat([tensor.flatten()[:1], tensor.flatten()])[1:].view(tensor.shape),
    "2^31 rows": _virtual(2**31),
    "2^40 rows": _virtual(2**40),
    "2^60 rows": _virtual(2**60),
    "a NaN": _first_filled(math.nan),
    "an infinity": _first_filled(math.inf),
    "a negative": _first_filled(-1),
    "a large number": _first_filled(1e30),
    "a large index": _first_filled(2**31),
    "only NaN": _filled(math.nan),
    "only infinities": _filled(-math.inf),
    "only large numbers": _filled(3e38),
    "only denormals": _filled(1e-40),
    "the same twice": lambda tensor: tensor,
    "an array": lambda tensor: tensor.detach().numpy(),
    "a list": lambda tensor: tensor.tolist(),
    "a list of it": lambda tensor: [tensor],
    "an empty list": lambda tensor: [],
    "nothing": lambda tensor: None,
    "text": lambda tensor: "tensor",
    "an int": lambda tensor: 1,
}

# Changes after which the values of results say nothing: sums overflow, and one index is as good as another.
NUMERIC_EXTREMES = frozenset(
    {"a NaN", "an infinity", "a large number", "a large index", "a negative", "only NaN", "only infinities"}
    | {"only large numbers", "only denormals", "overlapping"}
)

INTS = (0, 1, -1, 2, 7, 63, 1000, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63), 2**63, 10**30)
FLOATS = (0.0, -0.0, 1.0, -1.5, 0.5, 1e-45, 5e-324, 1e38, -1e308, 1.7e308, math.inf, -math.inf, math.nan)


class _Index:
    def __index__(self) -> int:
        raise ValueError("no number")


# For arguments of every kind.
ANY: tuple[Any, ...] = (
    *INTS,
    *FLOATS,
    None,
    True,
    "",
    "linear",
    "a\0b",
    "\N{SNOWMAN}" * 40,
    "\udc80",
    b"bytes",
    [],
    [1],
    [1, 2],
    [1, 2, 3],
    [2**63, 1],
    [-1, -1],
    [0, 0],
    [0.5, None],
    [[1, 2], [3, 4]],
    (1,) * 300,
    {},
    1j,
    numpy.float32(1.5),
    numpy.int64(3),
    numpy.ones(3),
    torch.tensor(2),
    torch.tensor([1.0, 2.0]),
    torch.float32,
    torch.Size([1, 2]),
    _Index(),
    object(),
    int,
)
