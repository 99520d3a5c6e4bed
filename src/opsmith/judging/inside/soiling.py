"""Changes memory that results lie in, or have lain in, for who leaves an element out, or keeps a result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.inside.results import listed, oddness
from opsmith.judging.scaled import bytes_of

__all__ = ["sizes_of", "soil", "write_over"]

# Bound before a candidate is imported.
_empty, _fill, _uint8, _bool = torch.empty, Tensor.fill_, torch.uint8, torch.bool
# How many pieces of memory are filled, by size in bytes: the next result may get any of them, and small ones are many.
_SOILED = ((1 << 16, 64), (1 << 20, 16), (1 << 62, 3))
_OTHER = 85


def sizes_of(results: Sequence[Any]) -> set[int]:
    """Return the sizes in bytes that the results of some calls have."""
    return {bytes_of(one) for found in results for one in listed(found) if not oddness(one)}


def soil(sizes: Iterable[int], byte: int, device: str) -> None:
    """Fill freed memory of some sizes with a byte."""
    for size in sizes:
        count = next(number for most, number in _SOILED if size <= most)
        pieces = [_fill(_empty(size, dtype=_uint8, device=device), byte) for _ in range(count)]
        del pieces


def write_over(result: Tensor) -> None:
    """Change all numbers of a result; one whose elements share memory stays."""
    with suppress(RuntimeError), torch.no_grad():
        if result.dtype is _bool:
            result.logical_not_()
        else:
            _fill(result, _OTHER)
