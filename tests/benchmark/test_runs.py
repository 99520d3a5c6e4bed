"""Several processes' runs as one report: what differs between them is in its intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted import around, report, small, timing

from opsmith.benchmark.compare import compare_reports
from opsmith.benchmark.runs import combined
from opsmith.report.bench.changes import comparison_lines
from opsmith.report.bench.page import reports_as_html
from opsmith.report.bench.text import report_lines


def runs(*seconds: float) -> list:
    return [small(own=own) for own in seconds]


def test_one_run_is_itself():
    assert combined([small()]) == small()


def test_runs_that_differ_make_intervals_wide():
    found = combined(runs(1e-5, 1.5e-5, 1.2e-5, 0.9e-5))
    own, eager = found.timings
    assert own.time is not None
    assert own.time.middle == pytest.approx((1 * 1.5 * 1.2 * 0.9) ** 0.25 * 1e-5)
    assert own.time.low < 0.9e-5
    assert own.time.high > 1.5e-5
    assert own.rounds == 160
    assert own.share == pytest.approx(0.5e-5 / own.time.middle)
    assert eager.verdict is not None
    assert eager.verdict.ratio.low < 2.0 < 3.3 < eager.verdict.ratio.high
    assert found.conditions["runs"] == 4
    assert found.seconds == 48.0
    assert list(report_lines(found))
    assert reports_as_html([found])


def test_runs_that_agree_are_surer_than_one_but_not_sure():
    found = combined(runs(*[1e-5] * 4))
    (own, _) = found.timings
    assert own.time is not None
    assert own.time.half_width == pytest.approx(around(1e-5).half_width / 2, rel=0.1)


def test_what_differs_between_processes_alone_is_no_regression():
    before, now = runs(1e-5, 1.4e-5, 1.2e-5), runs(1.5e-5, 1.3e-5, 1.1e-5)
    (change,) = compare_reports(before[:1], now[:1]).changes
    assert change.kind == "slower"
    (change,) = compare_reports([combined(before)], [combined(now)]).changes
    assert change.kind == "equal"


def test_a_slowdown_beyond_what_differs_between_processes_is_found():
    before, now = runs(1.0e-5, 1.01e-5, 1.02e-5, 1.0e-5), runs(1.2e-5, 1.21e-5, 1.19e-5, 1.2e-5)
    found = compare_reports([combined(before)], [combined(now)])
    assert [change.kind for change in found.changes] == ["slower"]
    assert found.runs == 4
    assert not any("one process" in line for line in comparison_lines(found, "old"))


def test_one_process_then_is_no_surer_than_the_spread_of_several_now():
    spread, calm = runs(1e-5, 1.4e-5, 1.2e-5, 1.1e-5, 1.3e-5), runs(*[1e-5] * 5)
    (change,) = compare_reports([small(own=0.95e-5)], [combined(spread)]).changes
    assert change.kind == "equal"
    (change,) = compare_reports([combined(spread)], [small(own=1.45e-5)]).changes
    assert change.kind == "equal"
    (change,) = compare_reports([small(own=0.8e-5)], [combined(calm)]).changes
    assert change.kind == "slower"


def test_a_run_that_is_wrong_makes_the_whole_wrong():
    wrong = replace(small(), timings=(replace(small().timings[0], error="wrong result after timing: y"),))
    assert not combined([small(), wrong]).ok


def test_a_run_without_a_time_does_not_count():
    skipped = report(timing("B 64, N 64", "opsmith", 0, time=None, wall=None, error="not timed: no time"))
    found = combined([small(), skipped])
    assert found.timings[0] == small().timings[0]
    assert len(found.timings) == 2


def test_runs_of_different_operators_are_refused():
    with pytest.raises(ValueError, match="2 reports of 2 operators"):
        combined([small(), replace(small(), operator="a.b")])
    with pytest.raises(ValueError, match="0 reports"):
        combined([])
