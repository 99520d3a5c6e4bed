"""Calls a reference in float64 where it takes that, and otherwise in the element types that it is declared with.

A body that says `x.dtype == torch.float32`, multiplies by a constant of its own type or looks at the bits of a number
works in one type. What it gives there is what the definition says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.subject import Subject

__all__ = ["in_accepted_types"]

_Run = Callable[[Mapping[str, Any]], list[Tensor]]


def in_accepted_types(subject: Subject, run: _Run, values: Mapping[str, Any]) -> _Run:
    """Return `run` so that arguments in wider types than those of `values` are narrowed where it refuses them.

    First those tensors whose type the signature pins, then all. Raises what `run` raises where it takes none of them.
    """
    pinned = subject.signature.pinned if subject.signature is not None else frozenset()
    floating = {name for name, value in values.items() if _is_floating(value)}
    steps: list[frozenset[str]] = [frozenset(), frozenset(pinned & floating), frozenset(floating)]
    steps = list(dict.fromkeys(steps))
    known: list[frozenset[str]] = []
    own = _Lazy(run, values) if floating and floating <= pinned else None

    def call(given: Mapping[str, Any]) -> list[Tensor]:
        if all(_types(given[name]) == _types(values[name]) for name in floating):
            return run(given)
        first: Exception | None = None
        for names in known or steps:
            narrowed = {name: _like(given[name], values[name]) if name in names else given[name] for name in given}
            try:
                found = run(narrowed)
            except Exception as error:
                first = first or error
                continue
            # A body that takes numbers for bits gives twice as many for numbers twice as wide.
            if not names and own is not None and own.shapes() not in (None, [result.shape for result in found]):
                continue
            known[:] = [names]
            return [_widened(result) for result in found] if names else found
        assert first is not None
        raise first

    return call


class _Lazy:
    """The shapes of what a function gives for some values, computed when they are first asked for."""

    def __init__(self, run: _Run, values: Mapping[str, Any]) -> None:
        self._run = run
        self._values = values
        self._shapes: list[torch.Size] | None = None
        self._is_known = False

    def shapes(self) -> list[torch.Size] | None:
        """Return them, or None if the function refuses the values."""
        if not self._is_known:
            self._is_known = True
            copies = {name: _like(value, value, copy=True) for name, value in self._values.items()}
            try:
                self._shapes = [result.shape for result in self._run(copies)]
            except Exception:
                self._shapes = None
        return self._shapes


def _is_floating(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Tensor) and first.dtype.is_floating_point


def _types(value: Any) -> list[torch.dtype]:
    return [item.dtype for item in (value if isinstance(value, list) else [value])]


def _like(given: Any, wanted: Any, *, copy: bool = False) -> Any:
    """Return a tensor, or a list of them, in the types of another."""
    if isinstance(given, Tensor) and isinstance(wanted, Tensor):
        return given.detach().to(wanted.dtype, copy=copy)
    if isinstance(given, list) and isinstance(wanted, list):
        return [_like(one, other, copy=copy) for one, other in zip(given, wanted, strict=True)]
    return given


def _widened(result: Tensor) -> Tensor:
    return result.to(torch.float64) if result.dtype.is_floating_point else result
