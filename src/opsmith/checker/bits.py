"""Compares results bit by bit, and describes where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from opsmith.subject.disagreement import place_of

__all__ = ["Difference", "differences", "element_bytes", "same_bits"]


@dataclass(frozen=True)
class Difference:
    """One result in which elements differ: its name, the first of them, and how many."""

    name: str
    index: tuple[int, ...]
    count: int
    elements: int
    is_untouched: bool = False  # they hold one of the fillings

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return f"{self.name}{where} ({self.count} of {self.elements} elements)"


def differences(
    one: Mapping[str, Tensor], other: Mapping[str, Tensor], fillings: Iterable[int] = ()
) -> list[Difference]:
    """Return the results that are not the same, bit by bit; `fillings` are bytes that memory held before the calls."""
    found = []
    for name in dict.fromkeys([*one, *other]):
        first, second = one.get(name), other.get(name)
        if first is None or second is None or first.shape != second.shape or first.dtype != second.dtype:
            elements = 0 if first is None else first.numel()
            found.append(Difference(name, (), elements, elements))
            continue
        differs = (element_bytes(first) != element_bytes(second)).any(dim=1)
        if bool(differs.any()):
            found.append(_describe(name, first, second, differs, fillings))
    return found


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape, one type and the same bits; NaN equals itself then.

    They are compared where they are, if that is one device.
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.device != other.device:
        one, other = one.cpu(), other.cpu()
    return torch.equal(_flat_bytes(one), _flat_bytes(other))


def _describe(name: str, first: Tensor, second: Tensor, differs: Tensor, fillings: Iterable[int]) -> Difference:
    flat = int(differs.to(torch.uint8).argmax())
    index = place_of(flat, first.shape)
    untouched = [
        any(bool((element_bytes(tensor)[differs] == body).all()) for body in fillings) for tensor in (first, second)
    ]
    return Difference(name, index, int(differs.sum()), first.numel(), all(untouched))


def element_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor on the CPU, a row for each element."""
    return _flat_bytes(tensor.cpu()).reshape(tensor.numel(), tensor.element_size())


def _flat_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor where it is."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element counts as contiguous whatever its stride is, and no other type can be seen through such a one.
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8)
