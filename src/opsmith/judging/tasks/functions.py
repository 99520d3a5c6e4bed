"""Reads any function with example calls as a task: the examples say what sizes, types and kinds of values it takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Entry
from opsmith.judging.structure import FEW, SHORT, half_of_zeros, has_few_numbers, has_short_rows
from opsmith.judging.structured import like_example
from opsmith.judging.task import Task
from opsmith.judging.tasks.places import generator_of, here
from opsmith.judging.tasks.symbols import guessed_signature
from opsmith.judging.tasks.trees import as_argument, tensors_of
from opsmith.subject.examples import Examples, labelled

__all__ = ["read_function"]

# Seeds with which it is tried whether numbers may be other ones, by how much these are off, and how many rows are few.
_TRIES, _SHIFT, _FEWEST_ROWS = 3, 0.05, 16


def read_function(function: Callable[..., Any], examples: Examples) -> Task:
    """Return the task of a function; an example is a tuple of arguments, or a mapping by name.

    Each seed draws other numbers like those of an example: from among them, and off by some percent, with its structure: in
    order, symmetric, triangular or positive definite, with rows of the length or the sum 1. Integers are drawn from among
    them as they are, and rows of a mask change places, where the function takes that; sorted ones stay, which may be
    offsets. Floating numbers that the function does not take otherwise stay too, but for a factor. Raises ArgumentError for
    examples that do not fit.
    """
    name = getattr(function, "__name__", "function")
    declared = _parameters_of(function, name)
    calls = {
        label or f"example {number}": _as_call(example, declared, name)
        for number, (label, example) in enumerate(labelled(examples), 1)
    }
    if not calls:
        raise ArgumentError(f"{name} has no examples, so nothing says what to call it with")
    first = next(iter(calls.values()))
    names = tuple(first)
    if other := next((label for label, call in calls.items() if tuple(call) != names), None):
        raise ArgumentError(f"the {other} of {name} has other arguments than the first; give all of them the same ones")
    posed = {label: _maker(function, call) for label, call in calls.items()}
    guess = guessed_signature(name, function, first)
    return Task(
        name,
        "function",
        names,
        function,
        next(iter(posed.values())),
        Entry((name, "custom_kernel", "ModelNew"), "arguments", names),
        posed,
        signature=guess.signature if guess else None,
        guessed=guess.lines if guess else (),
    )


def _parameters_of(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    try:
        declared = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} has no signature to inspect: wrap it in a Python function") from None
    return tuple(one.name for one in declared if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD))


def _as_call(example: Any, names: tuple[str, ...], function: str) -> dict[str, Any]:
    if isinstance(example, Mapping):
        unknown = [name for name in example if name not in names]
        if unknown:
            raise ArgumentError(f"an example of {function} names {unknown[0]}; it takes {', '.join(names)}")
        call = {name: example[name] for name in names if name in example}
        if tuple(call) != names[: len(call)]:
            raise ArgumentError(f"an example of {function} leaves an argument out in between; give it, too")
    else:
        values = tuple(example) if isinstance(example, tuple | list) else (example,)
        if len(values) > len(names):
            raise ArgumentError(f"an example of {function} has {len(values)} arguments; it takes {', '.join(names)}")
        call = dict(zip(names, values, strict=False))
    return {name: as_argument(value, f"{function}: the argument {name}") for name, value in call.items()}


def _maker(function: Callable[..., Any], call: Mapping[str, Any]) -> Callable[[int], Mapping[str, Any]]:
    """Return what makes calls like one, with as many other numbers as the function takes: it may assert some of them."""
    drawn = _drawn_integers(function, call)
    floating = frozenset(name for name, value in call.items() if _is_floating(value))
    if _takes_like(function, call, drawn) or not _takes_like(function, call, drawn, kept=floating):
        return functools.partial(_like, call, drawn)
    scaled = frozenset(name for name in floating if not _takes_like(function, call, drawn, kept=floating - {name}))
    kept = frozenset(name for name in scaled if not _takes_like(function, call, drawn, floating - {name}, {name}))
    for ways in ((kept, scaled - kept), (scaled, frozenset()), (floating, frozenset())):
        if _takes_like(function, call, drawn, *ways):
            break
    return functools.partial(_like, call, drawn, kept=ways[0], scaled=ways[1])


def _takes_like(
    function: Callable[..., Any],
    call: Mapping[str, Any],
    drawn: frozenset[str],
    kept: Collection[str] = (),
    scaled: Collection[str] = (),
) -> bool:
    """Whether a function takes calls that are made like one."""
    try:
        with torch.no_grad():
            for seed in range(_TRIES):
                function(*_like(call, drawn, seed, kept=kept, scaled=scaled).values())
    except Exception:
        return False
    return True


def _is_floating(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_floating, value))
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _like(
    call: Mapping[str, Any],
    drawn: frozenset[str],
    seed: int,
    *,
    kept: Collection[str] = (),
    scaled: Collection[str] = (),
) -> Mapping[str, Any]:
    """Return a call with other numbers; `drawn` are the arguments whose integers are other ones, too.

    Those that are `kept` have their own floating numbers, and those that are `scaled` a multiple of them.
    """
    generator = generator_of(seed)

    def multiplied(value: Any, factor: float) -> Any:
        if isinstance(value, list):
            return [multiplied(item, factor) for item in value]
        if not isinstance(value, Tensor):
            return value
        return here(value) * factor if factor != 1.0 and _is_floating(value) else here(value).clone()

    def other(value: Any) -> Any:
        if isinstance(value, list):
            return [other(item) for item in value]
        if not isinstance(value, Tensor):
            return value
        value = here(value)
        if value.is_complex() and value.numel():
            return torch.view_as_complex(_redrawn(torch.view_as_real(value.resolve_conj()).contiguous(), generator))
        if not value.is_floating_point() or not value.numel():
            return value.clone()
        factor = 0.5 + float(torch.rand((), generator=generator))
        return like_example(_redrawn(value, generator), value, factor)

    found = {}
    for name, value in call.items():
        if name in kept or name in scaled:
            factor = 1.0 if name in kept else 0.5 + float(torch.rand((), generator=generator))
            found[name] = multiplied(value, factor)
        else:
            found[name] = _chosen(here(value), generator) if name in drawn else other(value)
    return found


def _drawn_integers(function: Callable[..., Any], call: Mapping[str, Any]) -> frozenset[str]:
    """Return the arguments whose integers may be others of them: the function takes those, and stays finite."""
    names = [name for name, value in call.items() if isinstance(value, Tensor) and _is_choice(value)]
    if not names or not _is_finite(function, call):
        return frozenset()
    found: frozenset[str] = frozenset()
    for name in names:
        more = found | {name}
        if all(_is_finite(function, _like(call, more, seed)) for seed in range(_TRIES)):
            found = more
    return found


def _is_choice(value: Tensor) -> bool:
    """Whether a tensor has integers, or a mask, in an order that may be another one."""
    if value.is_floating_point() or value.is_complex() or value.numel() < 2:
        return False
    flat = value.flatten()
    return value.dtype is torch.bool or bool((flat[1:] < flat[:-1]).any())


def _is_finite(function: Callable[..., Any], call: Mapping[str, Any]) -> bool:
    given = [value.clone() if isinstance(value, Tensor) else value for value in call.values()]
    try:
        with torch.no_grad():
            results = tensors_of(function(*given))
    except Exception:
        return False
    return all(bool(one.isfinite().all()) for one in results)


def _chosen(value: Tensor, generator: torch.Generator) -> Tensor:
    """Return integers from among those of a tensor, all of them where each is there once; of a mask, its rows."""
    rows = value.reshape(-1, value.shape[-1]) if value.dtype is torch.bool and value.dim() > 1 else value.flatten()
    if rows.dtype is torch.bool or len(rows.unique()) == len(rows):
        places = torch.randperm(len(rows), generator=generator)
    else:
        places = torch.randint(0, len(rows), (len(rows),), generator=generator)
    found = torch.empty_like(value)
    found.copy_(rows[places].reshape(value.shape))
    return found


def _redrawn(value: Tensor, generator: torch.Generator) -> Tensor:
    """Return numbers from among those of a tensor, off by some percent, within their range, in its layout.

    The numbers of short rows belong together, as corners do, and those of small matrices; one that has no fraction in any
    of them is an index. Where there are few of these, each number stays in its place.
    """
    numbers = value.detach().flatten().to(torch.float64)
    if _has_a_place_each(value):
        moved = numbers * (1 + _SHIFT * torch.randn(len(numbers), generator=generator, dtype=torch.float64))
        moved = torch.where((numbers == 0) | (numbers == 1), numbers, _inside(moved, numbers[numbers.isfinite()]))
        return _in_layout_of(value, moved)
    columns = value.shape[-1] if has_short_rows(value) else 1
    if columns > 1 and value.dim() > 2 and value.shape[-2] <= SHORT:
        columns *= value.shape[-2]
    rows = numbers.view(-1, columns)
    chosen = rows[torch.randint(0, len(rows), (len(rows),), generator=generator)]
    is_small = numbers.numel() <= FEW and bool((numbers != numbers.round()).any())  # and no choice
    if is_small or not has_few_numbers(numbers):
        moved = chosen * (1 + _SHIFT * torch.randn((len(rows), 1), generator=generator, dtype=torch.float64))
        is_index = (rows == rows.round()).all(0) if columns > 1 else torch.zeros(1, dtype=torch.bool)
        chosen = torch.where(is_index, chosen, _inside(moved, numbers[numbers.isfinite()]))
    return _in_layout_of(value, chosen)


def _in_layout_of(value: Tensor, numbers: Tensor) -> Tensor:
    found = torch.empty_like(value)
    found.copy_(numbers.reshape(value.shape).to(value.dtype))
    return found


def _has_a_place_each(value: Tensor) -> bool:
    """Whether a tensor's numbers belong where they are: those of a triangular matrix, and of a few short rows."""
    if not has_short_rows(value):
        return value.dim() > 1 and half_of_zeros(value) is not None
    count = value.numel() // value.shape[-1]
    return (count // value.shape[-2] if value.dim() > 2 and value.shape[-2] <= SHORT else count) < _FEWEST_ROWS


def _inside(numbers: Tensor, own: Tensor) -> Tensor:
    """Return numbers between the least and the largest of the example's, which may be all that a function takes.

    What lies outside goes as far back, since many equal ones at an end would be ties.
    """
    if own.numel() == 0 or bool(own.min() == own.max()):
        return numbers
    least, most = own.min(), own.max()
    inside = torch.where(numbers > most, 2 * most - numbers, numbers)
    inside = torch.where(inside < least, 2 * least - inside, inside).clamp(least, most)
    return torch.where(numbers.isfinite(), inside, numbers)
