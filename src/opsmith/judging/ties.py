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
        with contextlib.suppress(Exception), torch.no_grad():
            return tuple(with_ties_settled(found, tensors_of(reference(*arguments)), tensors_of(list(arguments))))
        return found

    return call


def _settled(found: Tensor, usual: Tensor, given: Sequence[Tensor]) -> Tensor:
    are_alike = found.dtype is usual.dtype and found.shape == usual.shape and found.device == usual.device
    if not are_alike or found.dtype not in _INDICES or not found.numel() or torch.equal(found, usual):
        return found
    # Elements of a mask are nearly all equal, and what lies beside it may be what is sorted.
    for source in [one for one in given if one.dtype is not torch.bool] or given:
        for dim in _indexed_dims(source, usual):
            if not _are_indices(found, source, dim) or not _are_indices(usual, source, dim):
                continue
            places, right = (source.to(one.device).gather(dim, one.long()) for one in (found, usual))
            if not _is_stable(usual, right, dim):
                return torch.where((places == right) | (places.isnan() & right.isnan()), usual, found)
            break
    return found


def _indexed_dims(source: Tensor, indices: Tensor) -> list[int]:
    """Return the dimensions along which indices may be those of an input: the others have the same sizes."""
    if source.dim() != indices.dim() or not source.numel():
        return []
    other = [dim for dim, (a, b) in enumerate(zip(source.shape, indices.shape, strict=True)) if a != b]
    # Those that sort have all sizes in common, and mostly sort the last dimension.
    return other if len(other) == 1 else [] if other else [*reversed(range(source.dim()))]


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
