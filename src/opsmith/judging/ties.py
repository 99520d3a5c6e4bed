"""Excuses indices of equal elements: PyTorch leaves open in which order sort, argsort and topk return them.

What is sorted may be an argument, or what the reference makes of its arguments: probabilities that underflow to zero tie.
Indices are excused only where the reference's own change when equal elements come in another order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.orders import EqualInOrder, Sorted
from opsmith.judging.tasks.trees import tensors_of

__all__ = ["settling_ties", "with_ties_settled"]

_INDICES = (torch.int32, torch.int64)
# Orders of equal elements besides the first and the last in front: of many that tie, those do not show all.
_MORE_ORDERS = 4


def with_ties_settled(
    found: Sequence[Tensor], usual: Sequence[Tensor], run: Callable[[], Sequence[Tensor]]
) -> list[Tensor]:
    """Return results, in whose indices are the reference's where what it sorts has the same element at both.

    `usual` are the reference's results, and `run` has it compute them again. It is asked where indices differ.
    """
    if len(found) != len(usual) or not any(map(_are_other_indices, found, usual)):
        return list(found)
    with contextlib.suppress(Exception), torch.no_grad():
        with Sorted() as seen:
            run()
        if seen.found:
            others = [] if seen.names_one else _in_other_orders(run)
            return [
                _settled(one, right, seen.found, [other[number] for other in others])
                if _are_other_indices(one, right)
                else one
                for number, (one, right) in enumerate(zip(found, usual, strict=True))
            ]
    return list(found)


def settling_ties(function: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function with another one's results, whose indices are the reference's where these are as good."""

    def call(*arguments: Any) -> tuple[Tensor, ...]:
        found = tuple(tensors_of(function(*arguments)))
        if not any(one.dtype in _INDICES for one in found):
            return found
        # As what is expected is made: PyTorch sorts equal elements in an order that depends on strides.
        dense = [_dense(one) for one in arguments]

        def run() -> list[Tensor]:
            return tensors_of(reference(*map(_dense, dense)))

        with contextlib.suppress(Exception), torch.no_grad():
            return tuple(with_ties_settled(found, run(), run))
        return found

    return call


def _dense(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_dense, value))
    return value.clone(memory_format=torch.contiguous_format) if isinstance(value, Tensor) else value


def _are_other_indices(found: Tensor, usual: Tensor) -> bool:
    """Whether results are integers that may be indices, of the reference's form, and not all the reference's."""
    are_alike = found.dtype is usual.dtype and found.shape == usual.shape and found.device == usual.device
    return are_alike and found.dtype in _INDICES and found.numel() > 0 and not torch.equal(found, usual)


def _in_other_orders(run: Callable[[], Sequence[Tensor]]) -> list[Sequence[Tensor]]:
    """Return the reference's results where equal elements come in several orders."""
    random = torch.Generator().manual_seed(1)
    orders: list[Callable[[Tensor], Tensor]] = [
        lambda places: places,
        lambda places: places.flip(0),
        *[lambda places: places[torch.randperm(len(places), generator=random).to(places.device)]] * _MORE_ORDERS,
    ]
    results = []
    for arrange in orders:
        with EqualInOrder(arrange):
            results.append(run())
    return results


def _settled(found: Tensor, usual: Tensor, inside: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
    """Return indices with the reference's where these are of equal elements of what it sorts.

    `others` are the reference's in other orders of equal elements; where all are alike, that order is asked. Without any no
    order is known. What one of them has is right too, as ranks are that are made of indices.
    """
    if others and all(torch.equal(one, others[0]) for one in others):
        return found
    # None of them twice: a row is the reference's in another order.
    rows = (found.sort(-1).values == usual.sort(-1).values).all(-1, keepdim=True) if found.dim() else found == usual
    same = torch.zeros_like(found, dtype=torch.bool)
    for one in others:
        same |= rows & (found == one)
    for one in inside:
        same |= _are_as_good(found, usual, one)
        # Of one element of each row the dimension may be gone.
        for dim in range(one.dim()) if one.dim() == found.dim() + 1 else ():
            same |= _are_as_good(found.unsqueeze(dim), usual.unsqueeze(dim), one).squeeze(dim)
    return torch.where(same, usual, found)


def _are_as_good(found: Tensor, usual: Tensor, source: Tensor) -> Tensor:
    """Return which indices are of the same elements of a sorted tensor as the reference's, in rows that these sort."""
    for dim in _indexed_dims(source, usual):
        if _are_indices(found, source, dim) and _are_indices(usual, source, dim):
            elements = source.to(found.device)
            elements = elements if elements.is_floating_point() else elements.to(torch.int64)
            places, right = elements.gather(dim, found.long()), elements.gather(dim, usual.long())
            steps = right.diff(dim=dim)
            in_order = (steps >= 0).all(dim, keepdim=True) | (steps <= 0).all(dim, keepdim=True) | _has_nan(right, dim)
            return in_order & ((places == right) | (places.isnan() & right.isnan()))
    return torch.zeros_like(found, dtype=torch.bool)


def _has_nan(values: Tensor, dim: int) -> Tensor:
    return values.isnan().any(dim, keepdim=True)


def _indexed_dims(source: Tensor, indices: Tensor) -> list[int]:
    """Return the dimensions along which indices may be those of a tensor: the others have the same sizes."""
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
