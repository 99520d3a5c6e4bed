"""Reads an operator of opsmith's as a task: its definition is the reference, and candidates take its arguments."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Entry, Packing
from opsmith.judging.structure import FEW
from opsmith.judging.task import Task
from opsmith.judging.tasks.places import generator_of, here
from opsmith.runtime.operator import Operator
from opsmith.spec.signature import Signature
from opsmith.subject.choices_of_sizes import EDGES, wide_choice
from opsmith.subject.space import Choice, Space
from opsmith.subject.subject import Subject, subject_of

__all__ = ["read_operator"]

# What is posed where a definition has no examples: some dozens of elements, and then as many as this.
_ELEMENTS = 1 << 18


def read_operator(operator: Operator) -> Task:
    """Return the task of an operator; raises ArgumentError for one that both returns results and writes to arguments."""
    definition = operator.definition
    signature = definition.signature
    names = tuple(parameter.name for parameter in signature.parameters)
    written = tuple(parameter.name for parameter in signature.mutated)
    if written and signature.outputs:
        raise ArgumentError(f"{definition.name} returns results and writes to {written[0]}; a task does one of them")
    subject = subject_of(operator, devices=())
    posed = _examples(subject) or _generated(subject)
    first = next(iter(posed.values()))
    packing: Packing = "keywords" if any(parameter.keyword_only for parameter in signature.parameters) else "arguments"
    entry = Entry((definition.name, "custom_kernel", "ModelNew"), packing, names, written=written)
    trains = operator.gradient is not None
    return Task(
        f"{definition.namespace}.{definition.name}",
        "definition",
        names,
        _reference(operator, signature),
        first,
        entry,
        posed,
        signature=signature,
        trains=trains,
        differentiable=tuple(parameter.name for parameter in signature.parameters if parameter.differentiable),
    )


def _reference(operator: Operator, signature: Signature) -> Any:
    """Return the body as a function of arguments by position that gives what callers see."""
    keywords = {parameter.name for parameter in signature.parameters if parameter.keyword_only}
    names = [parameter.name for parameter in signature.parameters]
    seen = [index for index, output in enumerate(signature.outputs) if not output.saved]
    written = [parameter.name for parameter in signature.mutated]

    def reference(*values: Any) -> Any:
        given = dict(zip(names, values, strict=True))
        given |= {name: given[name].clone() for name in written}
        by_name = {name: given.pop(name) for name in list(given) if name in keywords}
        found = operator.reference(*given.values(), **by_name)
        if written:
            return tuple({**given, **by_name}[name] for name in written)
        return tuple(found[index] for index in seen) if isinstance(found, tuple) else found

    return reference


# The bounds of the power and of the factor by which examples have other numbers.
_SCALES = ((0.85, 1.15), (0.75, 1.25))


def _examples(subject: Subject) -> dict[str, Any]:
    """Return the examples that a definition has, as makers of such calls with other numbers."""
    return {
        case.label or f"example {index}": functools.partial(_scaled, case.build("cpu"))
        for index, case in enumerate(subject.examples, 1)
    }


def _scaled(call: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """Return a call with each floating tensor in another scale, by a power and a factor: what is sorted stays so.

    Boxes stay boxes. By a factor alone, calls would be multiples of each other, and results known from the first.
    """
    generator = generator_of(seed)

    def other(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [other(item) for item in value]
        if not isinstance(value, Tensor):
            return value
        value = here(value)
        if not value.is_floating_point() or len(value.unique()) <= FEW:
            return value.clone()
        power, factor = (low + (high - low) * float(torch.rand((), generator=generator)) for low, high in _SCALES)
        largest = float(value.abs().max())
        if not 0 < largest < float("inf"):
            return value * factor
        wide = value.to(torch.float64) / largest
        return (wide.sign() * wide.abs() ** power * (factor * largest)).to(value.dtype)

    return {name: other(value) for name, value in call.items()}


def _generated(subject: Subject) -> dict[str, Any]:
    space = subject.suite.space
    assert space is not None
    signature = space.signature
    letters = signature.letters
    dtypes = {letter: _usual(signature.dtypes[letter]) for letter in letters}
    wide = wide_choice(space)
    large = _grown(space, wide)
    return {
        label: functools.partial(_drawn, space, choice, dtypes)
        for label, choice in (("dozens of elements", wide), ("many elements", large))
        if space.case(choice, dtypes, 0) is not None
    }


def _usual(allowed: tuple[str, ...]) -> str:
    return next((name for name in ("float32", "int64") if name in allowed), allowed[0])


def _grown(space: Space, choice: Choice) -> Choice:
    """Return a choice with sizes as large as it may have elements."""
    found = choice
    for size in (one for one in EDGES if one % 2 == 0):
        sizes = dict.fromkeys(space.names, size)
        larger = replace(choice, sizes=sizes, groups=dict.fromkeys(space.groups, (size, size)))
        if space.elements(larger) <= _ELEMENTS:
            found = larger
    return found


def _drawn(space: Space, choice: Choice, dtypes: Mapping[str, str], seed: int) -> Mapping[str, Any]:
    case = space.case(choice, dtypes, seed)
    assert case is not None
    place = torch.get_default_device()
    return case.build(place, place)
