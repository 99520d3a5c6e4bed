"""Describes a task and its candidate as `opsmith check` takes them, with calls of other sizes where the task allows some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from opsmith.checker.process.index_probe import with_bounds_of_a_child
from opsmith.judging.complex_pairs import has_complex, in_pairs, over_pairs, places_of_complex
from opsmith.judging.integers import has_offsets, ranges_of
from opsmith.judging.structure import is_narrow
from opsmith.judging.tasks.places import on_device
from opsmith.judging.tasks.trees import tensors_of
from opsmith.judging.ties import settling_ties
from opsmith.judging.trial import Trial, Values
from opsmith.spec.signature import Signature
from opsmith.subject.case import Case
from opsmith.subject.examples import as_case
from opsmith.subject.subject import Subject

__all__ = ["TaskAsOperator", "task_as_operator"]

# Calls with more elements are not varied where smaller ones can be generated.
_MOST_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class TaskAsOperator:
    """A task and its candidate for the properties of `check`.

    `is_complex` says that complex numbers are pairs in it, `why_posed` why its sizes are the task's alone, or "".
    """

    subject: Subject
    is_complex: bool
    why_posed: str = ""


def task_as_operator(trial: Trial, kernel: Callable[..., Any], seed: int) -> TaskAsOperator | None:
    """Return what is asked of a candidate, which `kernel` calls; None for a task with float8, which `check` does not know.

    The integers of a definition may be any that its types allow. Those of another task lie between the ones that it poses,
    or count what its reference looks up with them.
    """
    task = trial.task
    calls = {label: make(seed) for label, make in task.makers.items()}
    numbers = _ComplexNumbers.of(trial, next(iter(calls.values())))
    if numbers.has_float8:
        return None
    if numbers:
        calls = {label: in_pairs(values) for label, values in calls.items()}

    def described(signature: Signature | None, why_posed: str = "") -> TaskAsOperator:
        return TaskAsOperator(_subject(trial, kernel, calls, numbers, seed, signature), bool(numbers), why_posed)

    if task.signature is None:
        return described(None)
    if has_offsets(calls.values()):
        return described(None, "offsets among the integers fit the task's own sizes alone")
    found = described(task.signature)
    integers = {} if task.kind == "definition" else ranges_of(calls.values())
    bounded = with_bounds_of_a_child(replace(found.subject, integers=integers), trial.until_s)
    if bounded is None:
        return described(None, "the reference crashes at integers that are not the task's")
    return replace(found, subject=bounded)


@dataclass(frozen=True)
class _ComplexNumbers:
    """Where a task has complex numbers: in its arguments (`places_of_complex`), and which of its results are.

    And whether it `has_float8`, in either.
    """

    places: tuple[Any, ...]
    results: frozenset[int]
    has_float8: bool

    @classmethod
    def of(cls, trial: Trial, values: Values) -> _ComplexNumbers:
        """Find them in a call."""
        given = trial.arguments(on_device(values, trial.cell.device))
        has_float8 = any(map(is_narrow, tensors_of(given)))
        with torch.no_grad():
            found = tensors_of(trial.task.reference(*given))
        places = tuple(places_of_complex(values[name]) for name in trial.task.parameters)
        results = frozenset(number for number, one in enumerate(found) if one.is_complex())
        return cls(places, results, has_float8 or any(map(is_narrow, found)))

    def __bool__(self) -> bool:
        return has_complex(list(self.places)) or bool(self.results)


def _subject(
    trial: Trial,
    kernel: Callable[..., Any],
    calls: Mapping[str, Values],
    numbers: _ComplexNumbers,
    seed: int,
    signature: Signature | None,
) -> Subject:
    """Return task and candidate, with pairs for complex numbers in `calls`, the posed ones; without a signature for them."""
    task, reference = trial.task, trial.task.reference
    kernel = settling_ties(kernel, reference)
    if numbers:
        reference, kernel = over_pairs(reference, numbers.places), over_pairs(kernel, numbers.places)
    cases = [replace(as_case(values, task.parameters), label=label) for label, values in calls.items()]
    if signature is not None:
        letters = signature.letters
        named = [dict(zip(letters, (d.name for d in one), strict=True)) for one in signature.combinations()]
        dtypes: tuple[Mapping[str, str], ...] = tuple(named) or ({},)
        floating = tuple(parameter.name for parameter in signature.parameters if parameter.differentiable)
        cases = [case for case in cases if case.elements <= _MOST_ELEMENTS]
    else:  # Of a function whose types nobody has written down, those of the posed calls.
        found = dict.fromkeys(one.dtype for case in cases for one in case.tensors().values() if "float" in one.dtype)
        dtypes = tuple({"T": name} for name in found) or ({},)
        floating = tuple(name for name in task.parameters if any(_is_floating(case, name) for case in cases))
    return Subject(
        task.name,
        kernel,
        kernel,
        reference,
        task.parameters,
        (trial.cell.device,),
        dtypes,
        signature,
        differentiable=task.differentiable if task.differentiable is not None else floating,
        examples=tuple(cases),
        seed=seed,
        paired=numbers.results,
    )


def _is_floating(case: Case, name: str) -> bool:
    """Whether an argument is a floating tensor, or a list of some."""
    return any(one.partition("[")[0] == name and "float" in recipe.dtype for one, recipe in case.tensors().items())
