"""Varies examples in one thing at a time, for a property for which nothing is generated that the reference takes.

Sizes and numbers may have to fit in a way that no shape expresses, such as groups that divide the channels. Then only
the examples show what fits, and other values of an argument are tried on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch

from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.values import FLOAT_VALUES, ROWS_OF_VALUES, group_of_values

__all__ = ["is_resized", "variations"]

_MOST_SIZES = 4
_IN_PLACE = " in place of "


def variations(case: Case, optional: tuple[str, ...], flags: Mapping[str, bool], seed: int) -> Iterator[Case]:
    """Yield a call with other values (groups values, equal and special), other arguments (scalars) and other sizes.

    `optional` are tensors that may be left out, `flags` what those are that the call does not give.
    """
    floating = [name for name, value in case.arguments.items() if _is_floating(value)]
    for kind in FLOAT_VALUES:
        if kind == "normal" or not floating:
            continue
        group = group_of_values(kind)
        filled = _filled(case, floating, kind, seed).at_bounds()
        if len(floating) == 1 or kind not in ROWS_OF_VALUES:
            yield replace(filled, label=f"{case.label}, {kind} values", group=group, base=case)
        for name in floating if len(floating) > 1 else ():
            label = f"{case.label}, {kind} values in {name}"
            yield replace(_filled(case, [name], kind, seed), label=label, group=group, base=case)
    yield from _resized(case)
    for name in optional:
        if case.arguments.get(name) is not None:
            yield Case({**case.arguments, name: None}, f"{case.label}, without {name}", "scalars", base=case)
    for name, value in {**flags, **case.arguments}.items():
        if isinstance(value, bool):
            other = not value
            yield Case({**case.arguments, name: other}, f"{case.label}, {name} = {other}", "scalars", base=case)


def is_resized(case: Case) -> bool:
    """Whether a case is an example in another size, which a kernel may refuse: an argument may have to say the size too."""
    return case.group == "sizes" and _IN_PLACE in case.label


def _resized(case: Case) -> Iterator[Case]:
    """Yield a call with each of its sizes doubled, one less and cut to 1, wherever that size stands."""
    tensors = case.tensors().values()
    for size in sorted({size for recipe in tensors for size in recipe.shape if size > 1})[:_MOST_SIZES]:
        for other in (2 * size, size - 1, 1):
            arguments = {name: _with_size(value, size, other) for name, value in case.arguments.items()}
            label = f"{case.label}, {other}{_IN_PLACE}{size}"
            yield Case(arguments, label, "sizes", base=case)


def _with_size(value: object, size: int, other: int) -> object:
    """Return an argument with another size; its numbers repeat, or the last ones are left out."""
    if isinstance(value, tuple):
        return tuple(_with_size(item, size, other) for item in value)
    if not isinstance(value, TensorRecipe) or value.given is None:
        return value
    given = value.given
    for dim, length in enumerate(value.shape):
        if length == size:
            given = given.index_select(dim, torch.arange(other, device=given.device) % size)
    return replace(value, shape=tuple(given.shape), given=given)


def _is_floating(value: object) -> bool:
    recipe = value[0] if isinstance(value, tuple) and value else value
    return isinstance(recipe, TensorRecipe) and getattr(torch, recipe.dtype).is_floating_point


def _filled(case: Case, names: list[str], kind: str, seed: int) -> Case:
    """Return a call with values of a kind in some tensors, each drawn for itself."""
    for index, name in enumerate(names):
        kept = frozenset(case.arguments) - {name}
        case = case.changed(kept=kept, given=None, values=kind, seed=seed * 7919 + index)
    return case
