"""Excuses indices of equal elements: PyTorch leaves open in which order sort, argsort and topk return them.

What is sorted may be an argument, or what the reference makes of its arguments: probabilities that underflow to zero tie.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.orders import with_sorted
from opsmith.judging.tasks.trees import tensors_of

__all__ = ["settling_ties", "with_ties_settled"]

_INDICES = (torch.int32, torch.int64)
# A reference that returns so many equal neighbours, all in the order of their indices, is a stable sort: that is asked then.
# Of so many rows it is looked at whether they differ.
_SURE, _ROWS = 16, 256
# Of so many steps few runs are in order by chance; of an input that decides in some, as beside a mask, this part is.
_LONG_RUN, _MOST_RUNS = 5, 0.4


def with_ties_settled(
    found: Sequence[Tensor], usual: Sequence[Tensor], given: Sequence[Tensor], inside: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Return results, in whose indices are the reference's where what is sorted has the same element at both.

    `usual` are the reference's results for the arguments `given`, and `inside` is what it sorts in no promised order.
    """
    if len(found) != len(usual):
        return list(found)
    return [_settled(one, other, given, inside) for one, other in zip(found, usual, strict=True)]


def settling_ties(function: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function with another one's results, whose indices are the reference's where these are as good."""

    def call(*arguments: Any) -> tuple[Tensor, ...]:
        found = tuple(tensors_of(function(*arguments)))
        if not any(one.dtype in _INDICES for one in found):
            return found
        # As what is expected is made: PyTorch sorts equal elements in an order that depends on strides.
        dense = [_dense(one) for one in arguments]
        with contextlib.suppress(Exception), torch.no_grad():
            usual, inside = with_sorted(lambda: tensors_of(reference(*dense)))
            return tuple(with_ties_settled(found, usual, tensors_of(list(arguments)), inside))
        return found

    return call


def _dense(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_dense, value))
    return value.clone(memory_format=torch.contiguous_format) if isinstance(value, Tensor) else value


def _settled(found: Tensor, usual: Tensor, given: Sequence[Tensor], inside: Sequence[Tensor]) -> Tensor:
    are_alike = found.dtype is usual.dtype and found.shape == usual.shape and found.device == usual.device
    if not are_alike or found.dtype not in _INDICES or not found.numel() or torch.equal(found, usual):
        return found
    same = _are_as_good(found, usual, given, is_open=False)
    for one in inside:
        # Of one element of each row the dimension may be gone.
        gone = range(one.dim()) if one.dim() == found.dim() + 1 else ()
        same |= _are_as_good(found, usual, [one], is_open=True)
        for dim in gone:
            same |= _are_as_good(found.unsqueeze(dim), usual.unsqueeze(dim), [one], is_open=True).squeeze(dim)
    return torch.where(same, usual, found)


def _are_as_good(found: Tensor, usual: Tensor, given: Sequence[Tensor], *, is_open: bool) -> Tensor:
    """Return which indices are of the same elements as the reference's; none where these have an order.

    That is looked at, unless the order `is_open`.
    """
    none = torch.zeros_like(found, dtype=torch.bool)
    # Elements of a mask are nearly all equal, and what lies beside it may be what is sorted.
    for dim in reversed(range(usual.dim())):
        sources = [
            one for one in given if dim in _indexed_dims(one, usual) and _both_are_indices(found, usual, one, dim)
        ]
        sources = [one for one in sources if one.dtype is not torch.bool] or sources
        if not sources:
            continue
        elements = [one.to(found.device).gather(dim, usual.long()) for one in sources]
        keys = _sorted_by(elements, dim) or ({0: ~none} if len(sources) == 1 else {})
        if not keys or (not is_open and any(_is_stable(usual, elements[number], dim) for number in keys)):
            return none
        same = ~none
        for number, decides in keys.items():
            places, right = sources[number].to(found.device).gather(dim, found.long()), elements[number]
            same &= (places == right) | (places.isnan() & right.isnan()) | ~decides
        return same
    return none


def _sorted_by(elements: Sequence[Tensor], dim: int) -> dict[int, Tensor]:
    """Return which inputs, by number, the reference has sorted, and where: those in order, and others among equal ones.

    `elements` are of each input what lies at the reference's indices. One that is only carried along is in no order.
    """
    rows = [(one if one.is_floating_point() else one.to(torch.int64)).movedim(dim, -1) for one in elements]
    steps = [one.reshape(-1, one.shape[-1]).diff(dim=-1) for one in rows]
    is_open = torch.ones_like(steps[0], dtype=torch.bool)
    keys: dict[int, Tensor] = {}
    while True:
        left = (number for number in range(len(steps)) if number not in keys)
        found = ((number, _places_in_order(steps[number], is_open)) for number in left)
        number, places = next(((number, one) for number, one in found if one is not None), (-1, None))
        if places is None:
            return keys
        keys[number] = places.reshape(rows[number].shape).movedim(-1, dim)
        is_open &= (steps[number] == 0) | steps[number].isnan() | ~places[:, 1:]


def _places_in_order(steps: Tensor, is_open: Tensor) -> Tensor | None:
    """Return the places [R, N] in runs of open steps [R, N - 1] that go one way; None where most runs are in no order."""
    begins = torch.ones(len(steps), steps.shape[1] + 1, dtype=torch.bool, device=steps.device)
    begins[:, 1:] = ~is_open
    runs = begins.flatten().cumsum(0).reshape(begins.shape) - 1
    count = int(runs.max()) + 1
    of_steps = runs[:, 1:][is_open]

    def counted(steps: Tensor) -> Tensor:
        return torch.bincount(of_steps[steps[is_open]], minlength=count)

    ups, downs = counted(steps > 0), counted(steps < 0)
    in_order = (ups == 0) | (downs == 0)
    long = counted(torch.ones_like(is_open)) >= _LONG_RUN
    told = in_order[long] if bool(long.any()) else in_order
    is_key = bool(in_order.all()) or (bool(long.any()) and float(told.float().mean()) >= _MOST_RUNS)
    return in_order[runs] if is_key else None


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
    """Whether neighbours that tie come in the order of their indices, more often than by chance.

    Rows that are alike, as of an expanded tensor, have one order by one chance.
    """
    tie = elements.diff(dim=dim) == 0 if elements.dtype is not torch.bool else elements.int().diff(dim=dim) == 0
    in_order = indices.diff(dim=dim)[tie] > 0
    if in_order.numel() < _SURE or not bool(in_order.all()):
        return False
    rows = indices.movedim(dim, -1).reshape(-1, indices.shape[dim])
    some = rows[:: -(-len(rows) // _ROWS)]
    return in_order.numel() * len(some.unique(dim=0)) / len(some) >= _SURE
