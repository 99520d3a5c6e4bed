"""Leaves out, in all element types but one, calls whose defects do not depend on the type.

A kernel is one template for all types, so a layout or a number that it is wrong for is wrong in each of them. `value` and
its like compare all calls in all types; gradients, memory and fake kernels cost more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.choices_of_layouts import LONG_ROWS
from opsmith.subject.layouts import COMBINED
from opsmith.subject.scalar_values import is_unusual

__all__ = ["for_types"]


def for_types(context: Context, cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the calls to make in the context's element types; a thorough check makes all of them."""
    makes_all = context.thorough or context.is_main_type
    yield from (case for case in cases if makes_all or not _is_for_one_type(case))


def _is_for_one_type(case: Case) -> bool:
    if case.has_options:
        return True
    if case.group == "layouts":
        layouts = {recipe.layout for recipe in case.tensors().values()}
        return not layouts.isdisjoint(COMBINED) or case.label.startswith(LONG_ROWS)
    if case.group != "scalars" or case.base is None:
        return False
    base = case.base.arguments
    return any(is_unusual(value) and value != base.get(name) for name, value in case.arguments.items())
