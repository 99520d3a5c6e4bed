"""What is tried where time is short: always the first of one order, which has every kind early, and the rest is told."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from jaxtyping import Float
from torch import Tensor

from opsmith.checker.process.timed_cases import TimedCases, interleaved
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Report
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.subject import subject_of

T = {"T": "float32"}


def halved(x: Float[Tensor, "B N"], scale: Float[Tensor, "N"]) -> Float[Tensor, "B N"]:
    return x * scale / 2


def busy(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    until_s = time.thread_time() + 0.008
    while time.thread_time() < until_s:
        pass
    return x * 0.5


def context(**options: Any) -> Context:
    return Context(subject_of(halved, reference=halved), "cpu", T, **options)


def test_all_are_there_once_and_of_every_kind_some_are_early():
    cases = list(context().subject.suite.cases(T, "plain", "sizes", "layouts", "values"))
    ordered = interleaved(cases)
    assert sorted(map(repr, ordered)) == sorted(map(repr, cases))
    assert [case.group for case in ordered[:2]] == ["plain", "plain"]
    early = ordered[: len(ordered) // 3]
    assert {"N = 4099", "B = 4099", "every tensor transposed", "mixed values"} <= {case.label for case in early}
    sizes = [case for case in cases if case.label.startswith("N = ")]
    first = [int(case.label.removeprefix("N = ")) for case in interleaved(sizes)[:8]]
    assert min(first) < 10
    assert max(first) > 1000


def test_tiles_long_rows_and_combined_layouts_are_early():
    suite = context().subject.suite
    sizes = [case.label for case in interleaved(suite.cases(T, "sizes", "large"))]
    assert "B x N = 257 x 259" in sizes[:8]
    assert "the last element decides, N = 33001" in sizes[:8]
    layouts = [case.label for case in interleaved(suite.cases(T, "layouts"))]
    assert "every tensor cut out of a transposed one" in layouts[:20]
    assert any(label.startswith("rows of 520") for label in layouts[:30])


@pytest.mark.parametrize("seconds", [0.0, 0.02])
def test_less_time_is_fewer_of_the_same(seconds: float):
    def tried(seconds: float) -> tuple[list[str], int]:
        cases = TimedCases(context(seconds=seconds), context().subject.suite.cases(T, "plain", "sizes"))
        found = []
        for case in cases:
            found.append(case.label)
            until_s = time.thread_time() + 0.002
            while time.thread_time() < until_s:
                pass
        return found, cases.left_out

    everything, none = tried(float("inf"))
    some, left_out = tried(seconds)
    assert none == 0
    assert len(some) >= 4
    assert some == everything[: len(some)]
    assert len(some) + left_out == len(everything)
    assert left_out > 0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_waiting_for_a_gpu_is_time_and_waiting_for_other_programs_is_none(device: str):
    here = replace(context(seconds=0.05), device=device)
    cases = TimedCases(here, here.subject.suite.cases(T, "plain", "sizes"))
    for _ in cases:
        time.sleep(0.002)
    assert (cases.left_out > 0) == (device == "cuda")


def check(function: Any, *names: str) -> Report:
    return run_check(subject_of(function, reference=function), CheckPlan(chosen(names), dtypes=("float64",)))


def test_the_report_tells_what_there_was_no_time_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("opsmith.checker.run._SECONDS", 0.2)
    report = check(busy, "magnitude")
    (result,) = report.results
    outcome = result.outcome
    assert outcome.state == "passed"
    assert outcome.left_out > 0
    (note,) = report.notes
    total = outcome.inputs + outcome.left_out
    assert f"magnitude (float64 {outcome.left_out} of {total})" in note
    assert "--thorough tries them" in note
    assert note in str(report).replace("\n  ", " ")


def test_the_later_properties_are_checked_beside_the_earlier_and_come_after_them():
    names = ("value", "determinism", "vmap", "large")
    report = check(halved, *names)
    assert [result.name for result in report.results] == list(names)
    assert {result.outcome.state for result in report.results[:2]} == {"passed"}
    assert not any(result.outcome.is_error for result in report.results)
