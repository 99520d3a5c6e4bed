"""Reads the arguments that select what is worked on: operators, modules of operators, and element types."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch

from opsmith.errors import ArgumentError
from opsmith.runtime.operator import Operator, operators_of
from opsmith.spec.dtypes import DTYPES

__all__ = ["dtype_names", "forward_operators", "phase_names", "several_operators"]


def forward_operators(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    """Return operators without those that are the gradients of others.

    A backward is checked through its forward, by the property `gradient`. By itself it would be called with results and
    inputs that do not belong together.
    """
    return tuple(operator for operator in operators if operator.definition.forward is None)


def dtype_names(dtypes: Iterable[str | torch.dtype] | str | torch.dtype | None) -> tuple[str, ...]:
    """Return element types, one or several, by name; raises ArgumentError for one that does not exist."""
    given = (dtypes,) if isinstance(dtypes, str | torch.dtype) else dtypes or ()
    names = tuple(str(dtype).removeprefix("torch.") for dtype in given)
    for name in names:
        if not isinstance(getattr(torch, name, None), torch.dtype):
            known = ", ".join(DTYPES)
            raise ArgumentError(f"unknown element type {name!r}; operators have {known}")
    return names


def phase_names(given: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phases that were given in their order, all where none was; raises ArgumentError for an unknown one."""
    wanted = tuple(given)
    if unknown := [name for name in wanted if name not in known]:
        raise ArgumentError(f"unknown phase {unknown[0]!r}; the phases are {', '.join(known)}")
    return tuple(name for name in known if not wanted or name in wanted)


def several_operators(op: Any) -> tuple[Any, ...] | None:
    """Return the operators that a list or a module stands for, or None for one; raises ArgumentError for an empty one."""
    if isinstance(op, list | tuple):
        if not op:
            raise ArgumentError("the list of operators is empty")
        return tuple(op)
    # torch.ops and its namespaces are modules too, by type, but hold no operators of a module.
    if not isinstance(op, ModuleType) or callable(op):
        return None
    found = forward_operators(operators_of(op.__name__))
    if not found:
        raise ArgumentError(f"{op.__name__} declares no operator; pass operators, or the module that declares them")
    return found
