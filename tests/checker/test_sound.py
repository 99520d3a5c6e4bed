"""Correct operators of many kinds pass every property: a false alarm is a defect of the check."""

from __future__ import annotations

from typing import Any

import pytest
from long_properties import LONG
from sound import sound, sound_digits, sound_python, suspicious

from opsmith.checker.properties.table import PROPERTIES, Property
from opsmith.checker.run import CheckPlan, run_check
from opsmith.runtime.operator import Operator
from opsmith.subject.subject import Subject, subject_of

pytestmark = pytest.mark.compile

_OPERATORS: dict[str, tuple[Any, Any]] = {
    **{
        name: (op, None)
        for file in (sound, sound_digits, suspicious)
        for name, op in vars(file).items()
        if isinstance(op, Operator) and op.definition.forward is None
    },
    "attend": (sound_python.attend, sound_python.reference),
    "function": (sound_python.function, sound_python.reference),
}
_VALUES = ("value", "magnitude", "special values", "empty", "strides", "arguments")

_DEPEND_ON_VALUES = tuple(item for item in PROPERTIES if item.name not in LONG)


def _subject(name: str, seed: int) -> Subject:
    op, reference = _OPERATORS[name]
    return subject_of(op, reference=reference, seed=seed)


def _has_float32(subject: Subject) -> bool:
    return any("float32" in dtypes.values() for dtypes in subject.dtypes)


def _named(*names: str) -> tuple[Property, ...]:
    return tuple(item for item in PROPERTIES if item.name in names)


@pytest.mark.parametrize("name", _OPERATORS)
def test_its_values_are_right(name: str) -> None:
    report = run_check(_subject(name, 0), CheckPlan(_named(*_VALUES)))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]


@pytest.mark.slow("compile, export, threads, determinism and others of 30 operators")
@pytest.mark.parametrize("name", _OPERATORS)
def test_the_other_properties_do_not_complain(name: str) -> None:
    # In one type: the tests above and below try all of them.
    others = tuple(item for item in PROPERTIES if item.name not in _VALUES)
    subject = _subject(name, 0)
    report = run_check(subject, CheckPlan(others, ("float32",) if _has_float32(subject) else ()))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]


@pytest.mark.slow("what depends on values, of 30 operators with another seed")
@pytest.mark.parametrize("name", _OPERATORS)
def test_no_property_complains_about_other_values(name: str) -> None:
    report = run_check(_subject(name, 1), CheckPlan(_DEPEND_ON_VALUES, seconds=4))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]
