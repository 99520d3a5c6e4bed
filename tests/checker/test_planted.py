"""Every planted defect is called by its name, by no unrelated one, and the operator without it passes everything."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from _pytest.mark import ParameterSet
from long_properties import LONG, TRACING

from opsmith.checker.properties.table import PROPERTIES, Property
from opsmith.checker.run import CheckPlan, run_check

sys.path.append(str(Path(__file__).with_name("planted")))

from table import TABLE, Planted

pytestmark = pytest.mark.compile

_SECONDS = 1.5
# A hang is a hang after this long too.
_SILENCE_S = 15.0


# What these change is there where a process has several cores and PyTorch several threads.
_NEED_CORES = frozenset({"flushes_workers", "pins", "one_thread"})


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _chosen(rows: Iterable[Planted]) -> list[Planted]:
    """Return a row for each class of defects and each name in it: what decides which name a defect gets.

    `make planted` checks all rows, as users do and for several seeds.
    """
    first: dict[tuple[str, str], Planted] = {}
    for row in rows:
        first.setdefault((row.kind, row.named), row)
    return list(first.values())


def _params(rows: Iterable[Planted], *few: Planted, mark: pytest.MarkDecorator | None = None) -> list[ParameterSet]:
    """Return rows as parameters; those that are not among the few have a mark."""
    marked = [] if mark is None else [mark]
    return [
        pytest.param(
            row,
            id=row.name,
            # A race shows where two threads run at the same time.
            marks=[
                *([pytest.mark.all_cores] if row.named == "threads" or row.name in _NEED_CORES else []),
                *([] if row in few else marked),
            ],
        )
        for row in rows
    ]


_ROWS = _chosen(TABLE)
_ONE_OF_EACH_NAME = list({row.named: row for row in reversed(_ROWS)}.values())
_ONE_OF_EACH_KIND = list({row.kind: row for row in _ROWS if row not in _ONE_OF_EACH_NAME}.values())
_OTHERS = [row for row in TABLE if row not in [*_ONE_OF_EACH_NAME, *_ONE_OF_EACH_KIND]]
# What traces an operator looks at what is registered, which opsmith does for its own.
_REGISTERED = [row for row in TABLE if row.is_registered]


def _plan(row: Planted, items: Iterable[Property], **more: Any) -> CheckPlan:
    # The programs of findings have tests of their own.
    return CheckPlan(tuple(items), row.dtypes, rerun=False, silence_s=_SILENCE_S, **more)


@pytest.mark.parametrize(
    "row",
    [
        *_params(_ONE_OF_EACH_NAME),
        *_params(_ONE_OF_EACH_KIND, mark=pytest.mark.slow("make test has a defect for each name")),
        *_params(_OTHERS, mark=pytest.mark.nightly("make test-all has a defect of each class, and one for each name")),
    ],
)
def test_its_property_finds_the_defect(row: Planted) -> None:
    items = [item for item in PROPERTIES if item.name in (row.named, *row.seen_in)]
    with _threads(2 if row.name in _NEED_CORES else torch.get_num_threads()):
        assert run_check(row.subject(planted=True), _plan(row, items)).failed == (row.named,)


@pytest.mark.slow("all properties of some operators; make planted has all")
@pytest.mark.parametrize(
    "row",
    _params(
        _ROWS, *_ONE_OF_EACH_NAME[::5], mark=pytest.mark.nightly("all properties; make test-all has every fifth name")
    ),
)
def test_the_defect_is_called_by_its_name(row: Planted) -> None:
    # What traces has a test of its own below; a race takes most of a second to look for, and only races are found.
    skipped = (TRACING - {row.named}) | ({"threads"} - {row.named, *row.also})
    items = [item for item in PROPERTIES if item.name not in skipped]
    processes = 1 if row.named == "threads" else None  # others would hold the core that a second thread needs
    report = run_check(row.subject(planted=True), _plan(row, items, processes=processes))
    found = {result.name: result.outcome.findings[0].message for result in report.failures}
    assert row.named in found, found
    assert found.keys() <= {row.named, *row.also}, found


@pytest.mark.nightly("compile, export and opcheck of an operator for each class of defects and name")
@pytest.mark.parametrize("row", _params(row for row in _chosen(_REGISTERED)))
def test_what_traces_calls_it_by_no_other_name(row: Planted) -> None:
    items = [item for item in PROPERTIES if item.name in {*TRACING, row.named, *row.seen_in}]
    failed = run_check(row.subject(planted=True), _plan(row, items)).failed
    assert row.named in failed
    assert set(failed) <= {row.named, *row.also}


@pytest.mark.nightly("all properties of an operator for each class of defects and name, in all types")
@pytest.mark.parametrize("row", _params(_ROWS))
def test_without_the_defect_nothing_is_found_in_any_type(row: Planted) -> None:
    skipped = LONG - {row.named} - (TRACING if row in _REGISTERED else frozenset())
    items = tuple(item for item in PROPERTIES if item.name not in skipped)
    # What there is no time for, `make test` and the test above try on the same operator.
    report = run_check(row.subject(planted=False, seed=1), CheckPlan(items, seconds=_SECONDS))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]


@pytest.mark.nightly("the property that finds each other defect, on the operator without it")
@pytest.mark.parametrize("row", _params(_OTHERS))
def test_its_property_holds_without_the_defect(row: Planted) -> None:
    items = [item for item in PROPERTIES if item.name in (row.named, *row.seen_in)]
    report = run_check(row.subject(planted=False, seed=1), _plan(row, items))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]
