"""Looks at what a candidate returns without trusting it: a class of its own may compute when it is gone through."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from opsmith.judging.memory import overlaps_itself
from opsmith.judging.packings import number_as_tensor

__all__ = ["Flat", "description", "listed", "oddness", "place_of", "resolved"]

# Bound before a candidate is imported.
_is_contiguous, _pointer, _clone = Tensor.is_contiguous, Tensor.data_ptr, Tensor.clone
_is_negated, _is_conjugated, _strides = Tensor.is_neg, Tensor.is_conj, Tensor.stride
_Tensor, _Parameter, _type, _Dict = torch.Tensor, torch.nn.Parameter, type, dict
_NUMBERS = (bool, int, float)


class Flat(list[Any]):
    """The results of a call, or gradients, as they are given."""


def listed(found: Any) -> list[Any]:
    """Return the results of a call, those in tuples, lists and dictionaries too, as `trees.tensors_of` has them.

    A list of a class of its own may compute when it is gone through: it is a result.
    """
    kind = _type(found)
    if kind is Flat:
        return list(found)
    if kind is _Dict:
        found = [found[key] for key in sorted(found, key=str)]
    elif issubclass(kind, tuple):  # with names, as PyTorch's functions return them
        found = list(tuple.__iter__(found))
    elif kind is not list:
        return [found]
    return [one for item in found if item is not None for one in listed(item)]


def place_of(result: Any) -> int | list[int] | None:
    """Return the address of a result, with its strides where it is not dense; None for what is not a plain tensor."""
    if oddness(result):
        return None
    return _pointer(result) if _is_contiguous(result) else [_pointer(result), *result.stride()]


def resolved(result: Any, device: str) -> Any:
    """Return a result as a tensor in its memory: a number, and what is conjugated or negated only when it is read."""
    kind = _type(result)
    if kind in _NUMBERS:
        return number_as_tensor(result, device)
    return _clone(result) if kind is _Tensor and (_is_negated(result) or _is_conjugated(result)) else result


def oddness(result: Any) -> str:
    """Return why a result is not a plain tensor, or an empty text."""
    kind = _type(result)
    if kind not in (_Tensor, _Parameter):
        return f"a tensor of the class {kind.__name__}" if issubclass(kind, _Tensor) else f"of type {kind.__name__}"
    if result.layout is not torch.strided or result.is_meta or result.is_quantized:
        return f"a tensor that is {'quantized' if result.is_quantized else 'meta' if result.is_meta else result.layout}"
    return ""


def description(result: Tensor, at: int, shares: list[int]) -> dict[str, Any]:
    """Return a result, whose bytes lie at a place of the area for them, as the judge is told of it.

    It `shares` memory with the arguments of these numbers.
    """
    shape = list(result.shape)
    overlaps = overlaps_itself(shape, list(_strides(result)))
    return {
        "at": at,
        "shape": shape,
        "dtype": str(result.dtype).removeprefix("torch."),
        "shares": shares,
        "overlaps": overlaps,
    }
