"""Operators registered in C++ by hand, without a definition: what they do not check, nobody does. See `load.py`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float32
from torch import Tensor

import opsmith

PLANTED = __name__.endswith("_planted")
_flags = [f"-DNAMESPACE={__name__}", *(["-DPLANTED"] if PLANTED else [])]
opsmith.load(__name__, str(Path(__file__).with_name("unchecked.cpp")), extra_cflags=_flags, is_python_module=False)
_ops = getattr(torch.ops, __name__)

Vector = Float32[Tensor, "N"]


def dot(x: Vector, y: Vector) -> Float32[Tensor, "1"]:
    return (x * y).sum().reshape(1)


def same(x: Vector) -> Vector:
    return x.clone()


def twice(x: Vector) -> Vector:
    return x * 2


for _name in ("dot", "alias", "offset", "keep"):
    torch.library.register_fake(
        f"{__name__}::{_name}", lambda *xs, name=_name: xs[0].new_empty(1 if name == "dot" else xs[0].shape)
    )


def _loop(info, in_dims, *xs, op):
    taken = [
        [x if dim is None else x.select(dim, n) for x, dim in zip(xs, in_dims, strict=True)]
        for n in range(info.batch_size)
    ]
    return torch.stack([op(*one) for one in taken]), 0


for _name in ("dot", "alias", "offset", "keep"):
    _op = getattr(_ops, _name).default
    torch.library.register_vmap(f"{__name__}::{_name}", functools.partial(_loop, op=_op))

OPERATORS: dict[str, tuple[Any, Any]] = {
    "dot": (_ops.dot.default, dot),
    "alias": (_ops.alias.default, same),
    "offset": (_ops.offset.default, twice),
    "keep": (_ops.keep.default, same),
}
