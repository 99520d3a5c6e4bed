"""Guesses which sizes of a task belong together: equal ones become a symbol, if the reference takes other values of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from opsmith.benchmark.deadline import Deadline, OutOfTime, time_limit
from opsmith.judging.bounded_task import host_memory_limit
from opsmith.judging.tasks.trees import tensors_of
from opsmith.spec.dtypes import from_torch
from opsmith.spec.shapes import Shape, parse_shape
from opsmith.spec.signature import Kind, Output, Parameter, Signature, TensorType
from opsmith.subject.copies import copied

__all__ = ["Guess", "guessed_signature", "signature_of"]

# What sizes are tried with: different for each symbol, so that two that have to be equal are told; small and odd, larger
# than most windows, and multiples of what groups and heads divide by.
_TRIED = (
    (3, 5, 2, 7, 4, 6, 9, 8),
    (7, 4, 9, 3, 8, 5, 2, 6),
    (33, 37, 35, 41, 39, 43, 36, 45),
    (16, 24, 32, 40, 48, 56, 64, 72),
    (64, 128, 96, 32, 160, 192, 224, 256),
)
# A reference may refuse some, as a window does that is larger than its input.
_ENOUGH = 2
# One symbol in five dimensions is soon too many.
_MOST_ELEMENTS = 1 << 18
# All tries may take so long, and each so much memory.
_MOST_S, _MOST_BYTES = 20.0, 4 << 30
_LETTERS = ("B", "N", "M", "K", "C", "H", "W", "D", "L", "P", "Q", "R", "S", "U", "V")
# Sizes from 1 to 4 are channels of a picture, or taps: alike by chance.
_LEAST = 5
_KINDS = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.STR}


@dataclass(frozen=True)
class Guess:
    """A signature, and what its symbols are in words: "N = 4096 (x[1], weight[0])"."""

    signature: Signature
    lines: tuple[str, ...]


def guessed_signature(
    name: str, reference: Callable[..., Any], values: Mapping[str, Any], fixed: Container[int] = ()
) -> Guess | None:
    """Return the signature that a call suggests, or None for arguments that a signature cannot have.

    A symbol whose other values the reference refuses is a number after all; so is a size that is `fixed`.
    """
    places: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for parameter, value in values.items():
        if isinstance(value, Tensor):
            if from_torch(value.dtype) is None:
                return None
            for dim, size in enumerate(value.shape):
                if size >= _LEAST and size not in fixed:
                    places[size].append((parameter, dim))
        elif type(value) not in _KINDS:
            return None
    order = sorted(places, key=lambda size: (list(values).index(places[size][0][0]), places[size][0][1]))
    deadline = Deadline(_MOST_S)
    taken, choices = _taken(lambda sizes: _runs(reference, values, sizes, deadline), values, order[: len(_TRIED[0])])
    letters = dict(zip(taken, _free_letters(values), strict=False))
    taken = list(letters)
    words = {name: _words(value, letters) for name, value in values.items() if isinstance(value, Tensor)}
    calls = [_resized(values, choice) for choice in choices] or [copied(values)] * 2
    try:
        with host_memory_limit(_MOST_BYTES):
            outputs = _outputs(reference, calls, letters, choices)
    except Exception:
        return None  # it does not take its own inputs, which the judgement says
    lines = tuple(
        f"{letters[size]} = {size} ({', '.join(f'{parameter}[{dim}]' for parameter, dim in places[size])})"
        for size in taken
    )
    return Guess(signature_of(name, values, words, outputs), lines)


def signature_of(
    name: str,
    values: Mapping[str, Any],
    words: Mapping[str, Sequence[str]],
    outputs: Sequence[tuple[str, torch.dtype, Sequence[str]]],
) -> Signature:
    """Return a signature with the element types and numbers of a call; `words` and `outputs` have the dimensions."""
    parameters = []
    for parameter, value in values.items():
        if isinstance(value, Tensor):
            tensor = _tensor_type(value.dtype, words[parameter], parameter)
            floating = value.dtype.is_floating_point
            parameters.append(Parameter(parameter, Kind.TENSOR, tensor, differentiable=floating))
        else:
            parameters.append(Parameter(parameter, _KINDS[type(value)], has_default=True, default=value))
    results = [
        Output(word, _tensor_type(dtype, dims, word), differentiable=dtype.is_floating_point)
        for word, dtype, dims in outputs
    ]
    return Signature(name, tuple(parameters), tuple(results), {})


def _tensor_type(dtype: torch.dtype, words: Sequence[str], where: str) -> TensorType:
    element = from_torch(dtype)
    assert element is not None
    text = " ".join(words)
    shape = parse_shape(text, where=where) if text else Shape(())
    return TensorType(element, shape, f"{element.name}[{text}]")


def _words(value: Tensor, letters: Mapping[int, str]) -> list[str]:
    return [letters.get(size, str(size)) for size in value.shape]


def _free_letters(values: Mapping[str, Any]) -> list[str]:
    return [letter for letter in _LETTERS if letter not in values]


def _taken(
    runs: Callable[[Mapping[int, int]], bool], values: Mapping[str, Any], sizes: Sequence[int]
) -> tuple[list[int], list[dict[int, int]]]:
    """Return those sizes that may have other values, all of them at once, and such values.

    Usually all may, or all but one. Otherwise they are taken one by one, the largest first, which makes runs cheap.
    """
    for chosen in (list(sizes), *([other for other in sizes if other != size] for size in reversed(sizes))):
        if chosen and len(choices := _fitting(runs, values, chosen)) >= _ENOUGH:
            return chosen, choices
    taken: list[int] = []
    found: list[dict[int, int]] = []
    for size in sorted(sizes, reverse=True):
        if len(choices := _fitting(runs, values, [*taken, size])) >= _ENOUGH:
            taken, found = [*taken, size], choices
    return [size for size in sizes if size in taken], found


def _fitting(
    runs: Callable[[Mapping[int, int]], bool], values: Mapping[str, Any], sizes: Sequence[int]
) -> list[dict[int, int]]:
    """Return the first choices of other values that a reference takes, as many as are enough."""
    most = max(_MOST_ELEMENTS, _elements(values, {}))
    choices = (dict(zip(sizes, tried, strict=False)) for tried in _TRIED)
    taken = (one for one in choices if _elements(values, one) <= most and runs(one))
    return list(islice(taken, _ENOUGH))


def _elements(values: Mapping[str, Any], sizes: Mapping[int, int]) -> int:
    tensors = [value for value in values.values() if isinstance(value, Tensor)]
    return sum(math.prod(sizes.get(size, size) for size in value.shape) for value in tensors)


def _runs(
    reference: Callable[..., Any], values: Mapping[str, Any], sizes: Mapping[int, int], deadline: Deadline
) -> bool:
    if deadline.left_s == 0:
        return False
    try:
        with time_limit(deadline.left_s, ends_programs=False), host_memory_limit(_MOST_BYTES), torch.no_grad():
            reference(*_resized(values, sizes).values())
    except (Exception, OutOfTime):
        return False
    return True


def _resized(values: Mapping[str, Any], sizes: Mapping[int, int]) -> dict[str, Any]:
    """Return arguments with other sizes: zeros for integers, which may be indices, and positive numbers."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            shape = [sizes.get(size, size) for size in value.shape]
            found[name] = (
                torch.zeros(shape, dtype=value.dtype) if not value.is_floating_point() else _ramp(shape, value)
            )
        else:
            found[name] = value
    return found


def _ramp(shape: Sequence[int], like: Tensor) -> Tensor:
    return torch.linspace(0.1, 1.0, math.prod(shape)).reshape(*shape).to(like.dtype)


def _outputs(
    reference: Callable[..., Any],
    calls: Sequence[Mapping[str, Any]],
    letters: Mapping[int, str],
    choices: Sequence[Any],
) -> list[tuple[str, torch.dtype, list[str]]]:
    """Return the outputs with their dimensions, each a symbol, a number, or "_" where it is neither; from two calls."""
    symbols = {}
    if choices:
        first, second = choices
        symbols = {(first[size], second[size]): letter for size, letter in reversed(list(letters.items()))}
    with torch.no_grad():
        results = [tensors_of(reference(*call.values())) for call in calls]
    found = []
    for index, (one, other) in enumerate(zip(*results, strict=False)):
        if from_torch(one.dtype) is not None:
            pairs = zip(one.shape, other.shape, strict=False)
            words = [symbols.get(pair, str(pair[0]) if pair[0] == pair[1] else "_") for pair in pairs]
            found.append((f"out{index}", one.dtype, words))
    return found
