"""Every planted defect is called by its name, by no unrelated one, and the operator without it passes everything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from long_properties import LONG, TRACING

from opsmith.checker.properties.table import PROPERTIES
from opsmith.checker.run import CheckPlan, run_check

sys.path.append(str(Path(__file__).with_name("planted")))

from table import TABLE, Planted

pytestmark = pytest.mark.compile

_SECONDS = 1.5
_ids = [row.name for row in TABLE]
# A race shows where two threads run at the same time.
_ROWS = [
    pytest.param(row, id=row.name, marks=[pytest.mark.all_cores] if row.named == "threads" else []) for row in TABLE
]
# What traces an operator looks at what is registered, which opsmith does for the others.
_REGISTERED = [row for row in TABLE if row.file != "kernels"]


@pytest.mark.parametrize("row", _ROWS)
def test_its_property_finds_the_defect(row: Planted) -> None:
    items = tuple(item for item in PROPERTIES if item.name == row.named)
    assert run_check(row.subject(planted=True), CheckPlan(items, row.dtypes)).failed == (row.named,)


@pytest.mark.slow("all properties of 64 operators; make test has the one that finds each")
@pytest.mark.parametrize("row", _ROWS)
def test_the_defect_is_called_by_its_name(row: Planted) -> None:
    # What traces has a test of its own below; a race takes most of a second to look for, and only races are found.
    skipped = TRACING | ({"threads"} - {row.named, *row.also})
    items = tuple(item for item in PROPERTIES if item.name not in skipped)
    processes = 1 if row.named == "threads" else None  # others would hold the core that a second thread needs
    report = run_check(row.subject(planted=True), CheckPlan(items, row.dtypes, processes=processes))
    found = {result.name: result.outcome.findings[0].message for result in report.failures}
    assert row.named in found, found
    assert found.keys() <= {row.named, *row.also}, found


@pytest.mark.slow("compile, export and opcheck of 30 operators")
@pytest.mark.parametrize("row", _REGISTERED, ids=[row.name for row in _REGISTERED])
def test_what_traces_calls_it_by_no_other_name(row: Planted) -> None:
    items = tuple(item for item in PROPERTIES if item.name in {*TRACING, row.named})
    failed = run_check(row.subject(planted=True), CheckPlan(items)).failed
    assert row.named in failed
    assert set(failed) <= {row.named, *row.also}


@pytest.mark.slow("all properties of 64 operators in all types")
@pytest.mark.parametrize("row", TABLE, ids=_ids)
def test_without_the_defect_nothing_is_found_in_any_type(row: Planted) -> None:
    skipped = LONG - {row.named} - (TRACING if row in _REGISTERED else frozenset())
    items = tuple(item for item in PROPERTIES if item.name not in skipped)
    # What there is no time for, `make test` and the test above try on the same operator.
    report = run_check(row.subject(planted=False, seed=1), CheckPlan(items, seconds=_SECONDS))
    assert report.ok, [(result.name, result.outcome.findings[0].message) for result in report.failures]
