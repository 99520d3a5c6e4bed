"""Makes the inputs that are timed: some sizes, each with more sets of inputs than the caches hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from opsmith.benchmark.machine import cache_bytes
from opsmith.errors import ArgumentError
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.space import Choice, Space
from opsmith.subject.subject import Subject

__all__ = ["Workload", "tensors_in", "workloads"]

# How many elements the largest tensor of a size has.
_ELEMENTS = {"cpu": (1 << 10, 1 << 16, 1 << 21), "cuda": (1 << 12, 1 << 20, 1 << 26)}
_MOST_SETS = 512
_MOST_BYTES = {"cpu": 512 << 20, "cuda": 8 << 30}
# All inputs together are more than this many times the cache.
_TIMES_CACHE = 3
# Larger tensors repeat a block of so many values: drawing more would take longer than timing them. Their further sets are
# copies: no processor learns a million values by heart, as its branch predictor may a thousand.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Workload:
    """One size in one element type. `label` names the size, as "B 64, N 4096"."""

    label: str
    case: Case
    dtype: str
    device: str

    @property
    def bytes_in(self) -> int:
        """Bytes of all inputs."""
        recipes = self.case.tensors().values()
        return sum(math.prod(recipe.shape) * getattr(torch, recipe.dtype).itemsize for recipe in recipes)

    @property
    def sets(self) -> int:
        """How many sets of inputs are taken in turn where a call reads its inputs and nothing else."""
        return self.sets_for(self.bytes_in)

    def sets_for(self, read_bytes: int, most: int = _MOST_SETS) -> int:
        """Return how many sets of inputs are taken in turn, so that each is out of the cache when its turn comes.

        `read_bytes` is what one call reads, which may be less than its inputs are: a gradient that is passed on
        unchanged reads nothing. There are `most` at most, and at least two.
        """
        wanted = _TIMES_CACHE * cache_bytes(self.device) // max(1, read_bytes) + 1
        fitting = _MOST_BYTES[self.device] // max(1, read_bytes, self.bytes_in)
        return int(max(2, min(wanted, most, _MOST_SETS, fitting)))

    def is_out_of_cache(self, read_bytes: int, sets: int) -> bool:
        """Return whether the sets together are more than the cache holds; small inputs come from it."""
        return sets * read_bytes > _TIMES_CACHE * cache_bytes(self.device)

    def inputs(self, seed: int) -> dict[str, Any]:
        """Return one set of arguments; another seed gives other values, of the same kind."""
        return {name: _build(_other_seed(value, seed), self.device) for name, value in self.case.arguments.items()}

    def input_sets(self, first: Mapping[str, Any], count: int) -> list[Mapping[str, Any]]:
        """Return so many sets of arguments, each in memory of its own; `first` is the first, as `inputs(0)` gives it."""
        if self.case.elements > _BLOCK:
            return [first, *({name: _copied(value) for name, value in first.items()} for _ in range(count - 1))]
        return [first, *(self.inputs(index) for index in range(1, count))]


def workloads(
    subject: Subject, device: str, dtypes: Iterable[str], sizes: Iterable[Mapping[str, int]] = ()
) -> Iterator[Workload]:
    """Yield what is timed on a device: the sizes given by name, else those of the operator's examples, else three.

    Raises ArgumentError for a name that is not a size of the operator, and for an element type that it does not have.
    """
    given = list(sizes)
    for dtype in dtypes:
        letters = next((item for item in subject.dtypes if _dtype_of(item) in (dtype, "")), None)
        if letters is None:
            raise _has_no(subject, dtype, map(_dtype_of, subject.dtypes))
        labels = set()
        for label, case in _cases(subject, device, letters, given):
            # Without a letter all types are fixed, and one of them may be named.
            if dtype and not letters and dtype not in (fixed := [one.dtype for one in case.tensors().values()]):
                raise _has_no(subject, dtype, fixed)
            if label not in labels:
                labels.add(label)
                yield Workload(label, case, dtype or _first_dtype(case), device)


def _has_no(subject: Subject, dtype: str, known: Iterable[str]) -> ArgumentError:
    return ArgumentError(f"{subject.name} has no element type {dtype}; it has {', '.join(dict.fromkeys(known))}")


def tensors_in(values: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors among arguments, those of lists too."""
    items = [item for value in values.values() for item in (value if isinstance(value, list) else [value])]
    return [item for item in items if isinstance(item, Tensor)]


def _dtype_of(letters: Mapping[str, str]) -> str:
    """Return the element type that a choice of template parameters goes by: that of floating tensors, else the first."""
    return letters.get("T") or next(iter(letters.values()), "")


def _first_dtype(case: Case) -> str:
    return next((recipe.dtype for recipe in case.tensors().values()), "")


def _cases(
    subject: Subject, device: str, letters: Mapping[str, str], given: list[Mapping[str, int]]
) -> Iterator[tuple[str, Case]]:
    space = subject.suite.space
    if given:
        if space is None:
            raise ArgumentError(f"{subject.name} has no named sizes; it is timed with its examples")
        for sizes in given:
            yield _of_sizes(space, sizes, letters, subject.name)
    elif subject.examples:
        yield from ((case.label, case) for case in subject.suite.given(letters))
    elif space is not None:
        chosen = [_sizes_for(space, elements, letters) for elements in _ELEMENTS[device]]
        for one in chosen:
            if one is not None:
                yield _of_sizes(space, one, letters, subject.name)
        if not any(chosen):
            # Sizes that depend on each other: the check knows how to choose them.
            yield "plain", subject.suite.plain(letters)


def _of_sizes(space: Space, sizes: Mapping[str, int], letters: Mapping[str, str], name: str) -> tuple[str, Case]:
    names = {*space.names, *space.groups}
    if unknown := sorted(sizes.keys() - names):
        known = f"it has {', '.join(sorted(names))}" if names else "it has none"
        raise ArgumentError(f"{name} has no size {unknown[0]}; {known}")
    if missing := sorted(names - sizes.keys()):
        raise ArgumentError(
            f"{name}: the size {missing[0]} is missing; give {','.join(f'{n}=...' for n in sorted(names))}"
        )
    case = _case(space, sizes, letters)
    if case is None:
        raise ArgumentError(f"{name}: with {', '.join(f'{n}={size}' for n, size in sizes.items())} a size is negative")
    return ", ".join(f"{size} {sizes[size]}" for size in sizes), case


def _case(space: Space, sizes: Mapping[str, int], letters: Mapping[str, str]) -> Case | None:
    plain = {size: sizes[size] for size in space.names}
    groups = {group: (sizes[group],) for group in space.groups}
    return space.case(Choice(plain, groups, {}, {}), letters, 0)


def _sizes_for(space: Space, elements: int, letters: Mapping[str, str]) -> dict[str, int] | None:
    """Return equal sizes, a power of two, with which the largest tensor has about so many elements; None for no such."""
    names = (*space.names, *space.groups)
    found, side = None, 1
    while names and side <= elements:
        sizes = dict.fromkeys(names, side)
        case = _case(space, sizes, letters)
        if case is not None:
            if max((math.prod(recipe.shape) for recipe in case.tensors().values()), default=0) > elements:
                break
            found = sizes
        side *= 2
    return found


def _build(value: Any, device: str) -> Any:
    if isinstance(value, TensorRecipe):
        count = math.prod(value.shape)
        if value.given is not None or count <= _BLOCK:
            return value.build(device)
        block = replace(value, shape=(_BLOCK,)).numbers().to(device)
        return block.repeat(-(-count // _BLOCK))[:count].reshape(value.shape)
    if isinstance(value, tuple):
        return [_build(item, device) for item in value]
    return value


def _other_seed(value: Any, index: int) -> Any:
    if index == 0:
        return value
    if isinstance(value, TensorRecipe):
        return replace(value, seed=value.seed + 100_003 * index)
    return tuple(_other_seed(item, index) for item in value) if isinstance(value, tuple) else value


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [_copied(item) for item in value] if isinstance(value, list) else value
