"""What is timed: calls of an operator in some sizes, with enough sets of inputs that no cache holds them all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from opsmith.bench.machine import cache_bytes
from opsmith.check.recipe import Case, TensorRecipe
from opsmith.check.space import Choice, Space
from opsmith.check.subject import Subject
from opsmith.errors import ArgumentError

__all__ = ["Workload", "tensors_in", "workloads"]

# How many elements the largest tensor of a size has.
_ELEMENTS = {"cpu": (1 << 10, 1 << 16, 1 << 21), "cuda": (1 << 12, 1 << 20, 1 << 26)}
_MOST_SETS = 64
_MOST_BYTES = {"cpu": 512 << 20, "cuda": 8 << 30}
# All inputs together are more than this many times the cache.
_TIMES_CACHE = 3


@dataclass(frozen=True)
class Workload:
    """One size in one element type. `label` names the size, as "B 64, N 4096"."""

    label: str
    case: Case
    dtype: str
    device: str

    def inputs(self, seed: int) -> dict[str, Any]:
        """Return one set of arguments; another seed gives other values."""
        shifted = {name: _reseeded(value, seed) if seed else value for name, value in self.case.arguments.items()}
        return Case(shifted).build(self.device)

    @property
    def bytes_in(self) -> int:
        """Bytes of all inputs."""
        recipes = self.case.tensors().values()
        return sum(math.prod(recipe.shape) * getattr(torch, recipe.dtype).itemsize for recipe in recipes)

    @property
    def sets(self) -> int:
        """How many sets of inputs are taken in turn, so that each is out of the cache when its turn comes."""
        wanted = _TIMES_CACHE * cache_bytes(self.device) // max(1, self.bytes_in) + 1
        return int(max(2, min(wanted, _MOST_SETS, _MOST_BYTES[self.device] // max(1, self.bytes_in))))

    @property
    def is_out_of_cache(self) -> bool:
        """Whether the sets together are more than the cache holds; small inputs come from it."""
        return self.sets * self.bytes_in > _TIMES_CACHE * cache_bytes(self.device)


def workloads(
    subject: Subject, device: str, dtypes: Iterable[str], sizes: Iterable[Mapping[str, int]] = ()
) -> Iterator[Workload]:
    """Yield what is timed on a device: the sizes given by name, else those of the operator's examples, else three.

    Raises ArgumentError for a name that is no size of the operator.
    """
    given = list(sizes)
    for dtype in dtypes:
        letters = next((item for item in subject.dtypes if item.get("T", dtype) == dtype), {})
        for label, case in _cases(subject, device, letters, given):
            yield Workload(label, case, dtype, device)


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
        for index, case in enumerate(subject.examples):
            dtype = letters.get("T")
            yield case.label or f"example {index + 1}", case if dtype is None else case.changed(dtype=dtype)
    elif space is not None:
        for elements in _ELEMENTS[device]:
            yield _of_sizes(space, _sizes_for(space, elements), letters, subject.name)


def _of_sizes(space: Space, sizes: Mapping[str, int], letters: Mapping[str, str], name: str) -> tuple[str, Case]:
    names = {*space.names, *space.groups}
    if unknown := sorted(sizes.keys() - names):
        raise ArgumentError(f"{name} has no size {unknown[0]}; it has {', '.join(sorted(names))}")
    if missing := sorted(names - sizes.keys()):
        raise ArgumentError(
            f"{name}: the size {missing[0]} is missing; give {', '.join(f'{n}=...' for n in sorted(names))}"
        )
    plain = {size: sizes[size] for size in space.names}
    groups = {group: (sizes[group],) for group in space.groups}
    case = space.case(Choice(plain, groups, {}, {}), letters, 0)
    if case is None:
        raise ArgumentError(f"{name}: the sizes {dict(sizes)} make a negative size")
    return ", ".join(f"{size} {sizes[size]}" for size in sizes), case


def _sizes_for(space: Space, elements: int) -> dict[str, int]:
    """Return equal sizes, a power of two, with which the largest tensor has about so many elements."""
    side = 1
    while True:
        larger = {**dict.fromkeys(space.names, 2 * side), **dict.fromkeys(space.groups, 2 * side)}
        if _largest(space, larger) > elements or side >= elements:
            return {name: max(side, 1) for name in larger}
        side *= 2


def _largest(space: Space, sizes: Mapping[str, int]) -> int:
    choice = Choice({n: sizes[n] for n in space.names}, {g: (sizes[g],) for g in space.groups}, {}, {})
    case = space.case(choice, {"T": "float32", "I": "int64"}, 0)
    return max((math.prod(recipe.shape) for recipe in case.tensors().values()), default=0) if case else 0


def _reseeded(value: Any, seed: int) -> Any:
    if isinstance(value, TensorRecipe):
        return replace(value, seed=value.seed + 100_003 * seed)
    return value


def tensors_in(values: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors among arguments, those of lists too."""
    items = [item for value in values.values() for item in (value if isinstance(value, list) else [value])]
    return [item for item in items if isinstance(item, Tensor)]
