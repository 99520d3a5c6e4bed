"""What comes of calling again: other bits, other bits on more threads, memory that stays; each under its own name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kit import sanitized
from kit_memory import sums

from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Report
from opsmith.checker.run import CheckPlan, run_check
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid
from opsmith.subject.subject import subject_of
from some import some

pytestmark = pytest.mark.compile

NAMES = ("determinism", "threads", "memory growth")


def check(op: Any, names: tuple[str, ...] = NAMES, **more: Any) -> Report:
    return run_check(subject_of(op, **more), CheckPlan(properties=chosen(names), dtypes=("float32",)))


def assert_passes(report: Report) -> None:
    assert report.ok, [finding.message for finding in report.findings]
    assert {result.outcome.state for result in report.results} == {"passed"}, report.results


@pytest.mark.parametrize(
    "op", some([sums.tidy, add2, lltm_gates, sigmoid, lltm_cell, sums.total], 0, "stress of operators", at_most=3)
)
def test_operators_without_a_defect(op: Any) -> None:
    assert_passes(check(op))


@pytest.mark.parametrize(
    ("op", "failed", "words"),
    some(
        [
            (sums.unset_scratch, ("determinism",), "output 0"),
            (sums.leaking, ("memory growth",), "bytes of memory (3"),
            (sums.total_by_threads, ("threads",), "always differs from that on one"),
            (sums.counting, ("determinism",), "output 0"),
            (sums.remembering, ("memory growth",), "bytes of memory"),
            (sums.leaky_slope, ("memory growth",), "with a backward leak"),
        ],
        2,
        "three properties of each defect",
    ),
)
def test_a_defect_has_one_name(op: Any, failed: tuple[str, ...], words: str) -> None:
    report = check(op)
    assert report.failed == failed, report.findings
    assert words in report.findings[0].message


@pytest.mark.all_cores
@pytest.mark.parametrize("op", some([sums.racing_total, sums.racing_on_own_threads], 1, "races"))
def test_a_data_race(op: Any) -> None:
    # Its results differ from run to run as well, so determinism may fail beside it.
    report = check(op, names=("threads",))
    assert report.failed == ("threads",)
    words = ("varies from call to call", "the first call of a process gives other results")
    assert any(one in report.findings[0].message for one in words)


@pytest.mark.nightly("builds and runs under ThreadSanitizer")
def test_a_thorough_check_runs_under_thread_sanitizer() -> None:
    def result(op: Any, *, thorough: bool) -> Any:
        (found,) = run_check(subject_of(op), CheckPlan(chosen(("threads",)), thorough=thorough)).results
        return found.outcome

    assert result(sanitized.raced_for_the_same, thorough=False).state == "passed"
    found = result(sanitized.raced_for_the_same, thorough=True)
    if "ThreadSanitizer did not run" in found.note:
        pytest.skip(found.note)
    assert found.state == "failed"
    assert "data race" in found.findings[0].message
    assert result(sanitized.copied, thorough=True).state == "passed"


@pytest.mark.slow("stress of operators in Python")
def test_operators_in_python() -> None:
    assert_passes(check(sums.copied_in_python, reference=sums.copied))
    assert check(sums.noisy, reference=sums.copied).failed == ("determinism",)
    report = check(sums.kept_in_python, reference=sums.copied)
    assert report.failed == ("memory growth",)


@pytest.mark.slow("stress of an operator")
def test_pytorch_s_own_sums_may_depend_on_the_number_of_threads() -> None:
    assert_passes(check(sums.summed_by_pytorch, reference=sums.summed))


def test_an_operator_that_says_that_it_is_not_deterministic() -> None:
    report = check(sums.refusing, names=("determinism",), reference=sums.copied)
    assert report.ok
    assert "says so" in report.results[0].outcome.note
    assert not torch.are_deterministic_algorithms_enabled()


def test_results_that_vary_by_themselves_say_nothing_of_threads() -> None:
    report = check(sums.counting, names=("threads",))
    (result,) = report.results
    assert result.outcome.state == "not run"
    assert "see determinism" in result.outcome.note
