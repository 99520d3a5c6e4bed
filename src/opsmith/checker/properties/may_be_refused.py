"""Says which calls a kernel may refuse though the reference answers them."""

from __future__ import annotations

from typing import Any

import torch

from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.scalar_values import is_unusual
from opsmith.subject.variations import is_resized

__all__ = ["changed_arguments", "may_be_refused"]


def may_be_refused(context: Context, case: Case) -> bool:
    """Whether a kernel may raise for a case that the reference takes in float64 and contiguous."""
    if _is_other_number(case) or is_resized(case):
        return True
    # Where a `view` of the reference's own needs a layout, which a copy in float64 has.
    return case.group == "layouts" and _reference_raises(context, case)


def _reference_raises(context: Context, case: Case) -> bool:
    try:
        with torch.no_grad():
            context.subject.results(context.subject.reference, case.build(context.device))
    except Exception:
        return True
    return False


def _is_other_number(case: Case) -> bool:
    """Whether a case has another number than the default, which the kernel may refuse: its meaning is not known."""
    if case.group != "scalars" or case.base is None:
        return False
    changed = changed_arguments(case, case.base)
    return any(is_unusual(case.arguments[name]) or _has_other_length(case, case.base, name) for name in changed)


def _has_other_length(case: Case, base: Case, name: str) -> bool:
    """Whether a list of numbers is longer than usual, or shorter."""
    value, usual = case.arguments[name], base.arguments.get(name)
    if not isinstance(value, tuple) or not isinstance(usual, tuple) or any(isinstance(v, TensorRecipe) for v in value):
        return False
    return len(value) != len(usual)


def changed_arguments(case: Case, other: Case) -> list[str]:
    """Return the arguments in which a case differs from another, which may leave some to their defaults."""
    known = other.arguments
    return [name for name, value in case.arguments.items() if name not in known or _differs(value, known[name])]


def _differs(one: Any, other: Any) -> bool:
    """Whether arguments differ beyond the numbers in a tensor."""
    if isinstance(one, TensorRecipe) and isinstance(other, TensorRecipe):
        return one.shape != other.shape
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return any(map(_differs, one, other))
    return bool(one != other)
