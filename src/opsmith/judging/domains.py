"""Tells whether numbers lie outside of a function's domain: where it makes NaN of others, whatever it returns.

Of a logarithm of negative numbers an index may be made, which shows nothing of that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.complex_pairs import in_pairs
from opsmith.judging.tasks.places import on_device
from opsmith.judging.trial import Trial
from opsmith.subject.copies import copied, upcast
from opsmith.subject.dispatch import DispatchMode

__all__ = ["has_nan", "leaves_domain"]


class _Watch(DispatchMode):
    """Finds out whether an operator makes NaN of numbers that are none."""

    def __init__(self) -> None:
        super().__init__()
        self.has_made_nan = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [] if self.has_made_nan else list(_floating([args, kwargs]))
        is_sound = bool(given) and not any(map(has_nan, given))  # before a call that writes to them
        result = func(*args, **(kwargs or {}))
        if is_sound and "empty" not in func.overloadpacket.__name__:  # which has what lay there before
            self.has_made_nan = any(map(has_nan, _floating(result)))
        return result


def leaves_domain(trial: Trial, values: Mapping[str, Any]) -> bool:
    """Whether a task's reference makes NaN on its way to the results, in the element type or in float64."""
    here = in_pairs(on_device(values, trial.cell.device))
    watch = _Watch()
    for form in (copied(here), upcast(here)):
        with contextlib.suppress(Exception), torch.no_grad(), watch:
            trial.subject.results(trial.subject.reference, form)
    return watch.has_made_nan


def _floating(value: Any) -> Iterator[Tensor]:
    if isinstance(value, list | tuple):
        for one in value:
            yield from _floating(one)
    elif isinstance(value, dict):
        yield from _floating(list(value.values()))
    elif isinstance(value, Tensor) and value.is_floating_point() and value.numel():
        yield value


def has_nan(value: Tensor) -> bool:
    """Whether a tensor has NaN."""
    return value.is_floating_point() and bool(value.isnan().any())
