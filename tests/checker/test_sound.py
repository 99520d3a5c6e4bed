"""Correct operators of many kinds pass every property: a false alarm is a defect of the check."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet
from long_properties import LONG
from sound.listed import OPERATORS

from opsmith.checker.properties.table import PROPERTIES, Property
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.subject import Subject, subject_of

pytestmark = pytest.mark.compile

_VALUES = ("value", "magnitude", "special values", "empty", "strides", "arguments")

# Every kind is among these: the operators are listed kind by kind.
_FAST, _FEWEST = (set(list(OPERATORS)[::step]) for step in (10, 20))


def _params(few: set[str], mark: pytest.MarkDecorator, of: Iterable[str] = OPERATORS) -> list[ParameterSet]:
    return [pytest.param(name, id=name, marks=[] if name in few else mark) for name in sorted(of)]


_DEPEND_ON_VALUES = tuple(item for item in PROPERTIES if item.name not in LONG)


def _subject(name: str, seed: int) -> Subject:
    op, reference = OPERATORS[name]
    return subject_of(op, reference=reference, seed=seed)


def _has_float32(subject: Subject) -> bool:
    return any("float32" in dtypes.values() for dtypes in subject.dtypes)


def _named(*names: str) -> tuple[Property, ...]:
    return tuple(item for item in PROPERTIES if item.name in names)


@pytest.mark.parametrize(
    "name",
    [
        *_params(_FEWEST, pytest.mark.slow("make test has three operators"), of=_FAST | _FEWEST),
        *_params(
            set(), pytest.mark.nightly("make test-all has every tenth operator"), of=set(OPERATORS) - _FAST - _FEWEST
        ),
    ],
)
def test_its_values_are_right(name: str) -> None:
    report = run_check(_subject(name, 0), CheckPlan(_named(*_VALUES)))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]


@pytest.mark.slow("compile, export, threads, determinism and others of 42 operators")
@pytest.mark.parametrize(
    "name",
    # Data decides about the size of what `over` returns: its gradient is traced as no other's.
    _params(_FEWEST | {"over"}, pytest.mark.nightly("make test-all has every twentieth operator")),
)
def test_the_other_properties_do_not_complain(name: str) -> None:
    # In one type: the tests above and below try all of them.
    others = tuple(item for item in PROPERTIES if item.name not in _VALUES)
    subject = _subject(name, 0)
    report = run_check(subject, CheckPlan(others, ("float32",) if _has_float32(subject) else ()))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]


@pytest.mark.nightly("what depends on values, of 42 operators with another seed")
@pytest.mark.parametrize("name", OPERATORS)
def test_no_property_complains_about_other_values(name: str) -> None:
    report = run_check(_subject(name, 1), CheckPlan(_DEPEND_ON_VALUES, seconds=4))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]
