"""Excuses indices of equal elements: PyTorch leaves open in which order sort, argsort and topk return them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.tasks.trees import tensors_of

__all__ = ["settling_ties", "with_ties_settled"]

_INDICES = (torch.int32, torch.int64)
# A reference that returns so many equal neighbours, all in the order of their indices, is a stable sort: that is asked then.
_SURE = 16


def with_ties_settled(found: Sequence[Tensor], usual: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """Return results, in whose indices are the reference's where an input has the same element at both.

    `usual` are the reference's results for the arguments `given`.
    """
    if len(found) != len(usual):
        return list(found)
    return [_settled(one, other, given) for one, other in zip(found, usual, strict=True)]


def settling_ties(function: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function with another one's results, whose indices are the reference's where these are as good."""

    def call(*arguments: Any) -> tuple[Tensor, ...]:
        found = tuple(tensors_of(function(*arguments)))
        if not any(one.dtype in _INDICES for one in found):
            return found
        # As what is expected is made: PyTorch sorts equal elements in an order that depends on strides.
        dense = [_dense(one) for one in arguments]
        with contextlib.suppress(Exception), torch.no_grad():
            return tuple(with_ties_settled(found, tensors_of(reference(*dense)), tensors_of(list(arguments))))
        return found

    return call


def _dense(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_dense, value))
    return value.clone(memory_format=torch.contiguous_format) if isinstance(value, Tensor) else value


def _settled(found: Tensor, usual: Tensor, given: Sequence[Tensor]) -> Tensor:
    are_alike = found.dtype is usual.dtype and found.shape == usual.shape and found.device == usual.device
    if not are_alike or found.dtype not in _INDICES or not found.numel() or torch.equal(found, usual):
        return found
    # Elements of a mask are nearly all equal, and what lies beside it may be what is sorted.
    for dim in reversed(range(usual.dim())):
        sources = [
            one for one in given if dim in _indexed_dims(one, usual) and _both_are_indices(found, usual, one, dim)
        ]
        sources = [one for one in sources if one.dtype is not torch.bool] or sources
        if not sources:
            continue
        elements = [one.to(found.device).gather(dim, usual.long()) for one in sources]
        keys = _sorted_by(elements, dim) or ([0] if len(sources) == 1 else [])
        if not keys or any(_is_stable(usual, elements[number], dim) for number in keys):
            return found
        same = torch.ones_like(found, dtype=torch.bool)
        for number in keys:
            places, right = sources[number].to(found.device).gather(dim, found.long()), elements[number]
            same &= (places == right) | (places.isnan() & right.isnan())
        return torch.where(same, usual, found)
    return found


def _sorted_by(elements: Sequence[Tensor], dim: int) -> list[int]:
    """Return which inputs, by number, the reference has sorted: those in order, and among equal ones of these others.

    `elements` are of each input what lies at the reference's indices. An input that is only carried along is in no order.
    """
    steps = [(one.to(torch.int8) if one.dtype is torch.bool else one).diff(dim=dim) for one in elements]
    is_open = torch.ones_like(steps[0], dtype=torch.bool)
    keys: list[int] = []
    while True:
        left = [number for number in range(len(steps)) if number not in keys]
        more = next((number for number in left if _is_in_order(steps[number][is_open])), None)
        if more is None:
            return keys
        keys.append(more)
        is_open &= (steps[more] == 0) | steps[more].isnan()


def _is_in_order(steps: Tensor) -> bool:
    return not bool((steps > 0).any()) or not bool((steps < 0).any())


def _indexed_dims(source: Tensor, indices: Tensor) -> list[int]:
    """Return the dimensions along which indices may be those of an input: the others have the same sizes."""
    if source.dim() != indices.dim() or not source.numel():
        return []
    other = [dim for dim, (a, b) in enumerate(zip(source.shape, indices.shape, strict=True)) if a != b]
    # Those that sort have all sizes in common, and mostly sort the last dimension.
    return other if len(other) == 1 else [] if other else [*reversed(range(source.dim()))]


def _both_are_indices(found: Tensor, usual: Tensor, source: Tensor, dim: int) -> bool:
    return _are_indices(found, source, dim) and _are_indices(usual, source, dim)


def _are_indices(indices: Tensor, source: Tensor, dim: int) -> bool:
    """Whether numbers are indices of a dimension, none twice in one row."""
    if int(indices.min()) < 0 or int(indices.max()) >= source.shape[dim]:
        return False
    return bool((indices.sort(dim).values.diff(dim=dim) != 0).all())


def _is_stable(indices: Tensor, elements: Tensor, dim: int) -> bool:
    """Whether neighbours that tie come in the order of their indices, more often than by chance."""
    tie = elements.diff(dim=dim) == 0 if elements.dtype is not torch.bool else elements.int().diff(dim=dim) == 0
    in_order = indices.diff(dim=dim)[tie] > 0
    return in_order.numel() >= _SURE and bool(in_order.all())
