"""Makes inputs of others: with some of another call's numbers in them, or with numbers of other kinds in the same shapes.

Integers are indices or labels, and stay as they are. Lists have each of their tensors changed, and complex numbers both
parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.complex_pairs import in_pairs, joined, places_of_complex
from opsmith.judging.structure import has_short_rows, is_choice, is_narrow
from opsmith.judging.task import Task
from opsmith.judging.tasks.trees import as_real
from opsmith.judging.trial import Values
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.draws import Draws
from opsmith.subject.examples import as_case

__all__ = ["STREWN", "cases_of_kinds", "changed", "mixed", "strewn", "values_of", "with_own_sign"]

# The part of the elements that are other ones where most stay.
_PLACES, _FEWEST = 1 / 8, 64
# In how many places of a tensor another kind of numbers lies, in one call and in another. A look at a 64th of a tensor sees
# one of eight in one call of nine, and of two in one of 32; of these none may be what the code is wrong for.
STREWN = (8, 2)
# A tensor with so many times fewer numbers than the largest one stands beside it.
_BESIDE = 8
# Tensors of one shape have other numbers in each, and so do calls.
_SEEDS_OF_A_KIND = 101


def changed(value: Any, other: Any, change: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """Return an argument with `change` made to its floating-point tensors that are not small, each with its like in another.

    Where nothing changes it is the argument itself.
    """
    if isinstance(value, list | tuple):
        found = [changed(*pair, change) for pair in zip(value, other, strict=False)]
        is_other = len(value) == len(other) and any(one is not old for one, old in zip(found, value, strict=True))
        return found if is_other else value
    if not isinstance(value, Tensor) or value.shape != other.shape or value.numel() < _FEWEST:
        return value
    if value.is_complex():
        return torch.view_as_complex(change(as_real(value), as_real(other)).contiguous())
    if is_narrow(value):
        return change(value.view(torch.uint8), other.view(torch.uint8)).view(value.dtype)
    return change(value, other) if value.is_floating_point() else value


def mixed(draws: Draws) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what lays some of another tensor's numbers into the middle of one."""

    def change(old: Tensor, new: Tensor) -> Tensor:
        chosen = draws.uniform(old[..., :1] if has_short_rows(old) else old) < _PLACES
        chosen = chosen.expand(old.shape).contiguous()
        edge = old.numel() // 4
        chosen.view(-1)[:edge] = False
        chosen.view(-1)[-edge:] = False
        return torch.where(chosen, new, old)

    return change


def strewn(draws: Draws, most: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what lays a few of another tensor's numbers anywhere into one."""

    def change(value: Tensor, other: Tensor) -> Tensor:
        random = draws.generator(value)
        count = min(most, value.numel() // _FEWEST)
        places = torch.randint(value.numel(), (count,), generator=random, device=random.device)
        chosen = torch.zeros(value.numel(), dtype=torch.bool, device=value.device)
        chosen[places.to(value.device)] = True
        return torch.where(chosen.view(value.shape), other.to(value.device), value)

    return change


def cases_of_kinds(
    task: Task, values: Values, kinds: Sequence[str], seed: int, constant: Collection[str] = ()
) -> Iterator[Case]:
    """Yield a call for each kind of numbers in the shapes of another one, with pairs for complex numbers.

    Weights stay as they are, and so does what is `constant`, or has few different numbers, as a mask.
    """
    case = as_case(in_pairs(values), task.parameters)
    kept = frozenset(task.lifted) | frozenset(constant) | {name for name, value in values.items() if is_choice(value)}
    for number, kind in enumerate(kinds):
        other = case.changed(kept=kept, values=kind, given=None)
        seeds = itertools.count(seed + number * _SEEDS_OF_A_KIND)
        arguments = {name: _floating(value, other.arguments[name], seeds) for name, value in case.arguments.items()}
        yield Case(arguments, f"{kind} values", "values", base=case)


def _floating(value: Any, other: Any, seeds: Iterator[int]) -> Any:
    """Return another argument where this one has floating-point numbers, and this one elsewhere; each tensor has its own."""
    if isinstance(value, tuple):
        return tuple(_floating(one, two, seeds) for one, two in zip(value, other, strict=True))
    if not isinstance(value, TensorRecipe) or not getattr(torch, value.dtype).is_floating_point:
        return value
    return other if other is value else replace(other, seed=next(seeds))


def values_of(case: Case, like: Values, device: str) -> dict[str, Any]:
    """Return the arguments of a case, with complex tensors where another call has them.

    What has few numbers beside the largest tensor keeps the sign that all of its own have, and stays between 0 and 1 where
    these are: it is a scale, a threshold or a probability more likely than what the function is of.
    """
    built = case.build(device, device)
    most = max((value.numel() for value in like.values() if isinstance(value, Tensor)), default=0)
    found = {}
    for name, own in like.items():
        if case.base is not None and case.arguments[name] is case.base.arguments[name]:
            found[name] = own
            continue
        value = joined(built[name], places_of_complex(own))
        is_beside = isinstance(value, Tensor) and value.numel() * _BESIDE <= most
        found[name] = _in_unit(with_own_sign(value, own), own) if is_beside else value
    return found


def with_own_sign(value: Any, own: Any) -> Any:
    """Return a floating tensor with the sign that all numbers of another one have, which is one of the task's."""
    is_other = isinstance(value, Tensor) and value is not own and value.is_floating_point() and not is_choice(own)
    if not is_other or not own.numel():
        return value
    least, most = map(float, torch.aminmax(own))
    if least < 0 < most or math.isnan(least):
        return value
    value = value.abs() if most > 0 or least == 0 else -value.abs()
    # Where none is zero, none of the others is: of a logarithm, or a quotient, zero is no number of the domain.
    nearest = least if least > 0 else most
    return torch.where(value == 0, nearest, value) if nearest else value


def _in_unit(value: Tensor, own: Tensor) -> Tensor:
    """Return finite numbers between 0 and 1 where all of another tensor's are, by the inverse of larger ones."""
    if not value.is_floating_point() or not own.numel() or not bool(((own >= 0) & (own <= 1)).all()):
        return value
    return torch.where((value > 1) & value.isfinite(), 1 / value, value)
