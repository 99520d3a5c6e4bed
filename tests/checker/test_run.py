"""The run of a check: a crash and a hang are findings, the rest goes on after them, and a seed makes it again."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
import torch
from jaxtyping import Float
from kit import unguarded
from kit_screen import operators
from torch import Tensor

from opsmith.checker.process.slow_sizes import without_slow_sizes
from opsmith.checker.properties import values
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.table import PROPERTIES, chosen
from opsmith.checker.report import Column, Report, Result
from opsmith.checker.run import CheckPlan, Watcher, run_check
from opsmith.errors import ArgumentError, CheckError
from opsmith.subject import oracle
from opsmith.subject.case import Case
from opsmith.subject.subject import Subject, subject_of
from some import some


def check(subject: Subject, *names: str, watch: Watcher | None = None, **options: Any) -> Report:
    return run_check(subject, CheckPlan(properties=chosen(names), dtypes=("float32",), **options), watch)


def states(report: Report) -> dict[str, str]:
    return {result.name: result.outcome.state for result in report.results}


@pytest.mark.compile
def test_a_crash_is_a_finding_and_the_run_goes_on():
    report = check(subject_of(operators.crashing), "value", "sizes", "empty", "strides")
    # Layouts are tried in long rows too, which crash as well: that is the same defect.
    assert states(report) == {"value": "passed", "sizes": "failed", "empty": "passed", "strides": "not run"}
    (finding,) = report.findings
    assert finding.message == "N = 64: it crashes: a segmentation fault, first seen with N = 4099"
    assert finding.case is not None
    assert finding.case.tensors()["x"].shape == (64,)


@pytest.mark.compile
def test_a_crash_is_one_defect():
    # The fake kernel is compared with calls of as many elements, and is not to blame.
    report = check(subject_of(operators.crashing), "value", "sizes", "fake")
    assert states(report) == {"value": "passed", "sizes": "failed", "fake": "not run"}
    assert report.results[-1].outcome.note == "the operator itself crashes there: see sizes"


@pytest.mark.compile
def test_a_crash_in_an_output_that_is_left_out_says_so():
    report = check(subject_of(unguarded.keeps_on_trust), "value", "func.grad")
    finding, *_ = report.findings
    assert "a segmentation fault" in finding.message
    assert finding.hint == "With needs_doubled = False, doubled has no elements: the kernel must not write to it."
    assert states(report) == {"value": "failed", "func.grad": "not run"}


@pytest.mark.compile
def test_a_hang_costs_its_silence_once():
    plan = CheckPlan(
        properties=chosen(("special values", "empty")), dtypes=("float32", "float16"), silence_s=1.5, rerun=False
    )
    found = [(r.outcome.state, r.outcome.note) for r in run_check(subject_of(operators.hanging), plan).results]
    assert [state for state, _ in found] == ["failed", "not run", "passed", "passed"]
    assert found[1][1] == "it already hangs in float32"


@pytest.mark.compile
def test_a_crash_is_made_smaller():
    only_large = [(torch.randn(999, dtype=torch.float32),)]
    report = check(subject_of(operators.crashing, examples=only_large), "value")
    (finding,) = report.findings
    assert finding.message == "example 1: it crashes: a segmentation fault"
    assert finding.case is not None
    assert finding.case.tensors()["x"].shape == (64,)
    assert torch.equal(finding.case.build()["x"], only_large[0][0][:64])


@pytest.mark.slow("the program of a hang is run until it counts as one")
@pytest.mark.compile
def test_a_hang_is_found_after_the_silence_and_the_run_goes_on():
    report = check(subject_of(operators.hanging), "value", "special values", "empty", silence_s=1.5)
    assert states(report) == {"value": "passed", "special values": "failed", "empty": "passed"}
    (finding,) = report.findings
    assert finding.message == "it hangs: no answer on nan values"
    assert finding.case is not None
    assert finding.case.tensors()["x"].values == "nan"


def test_a_reference_that_hangs_is_to_blame_and_ends_the_check() -> None:
    def endless(x: Tensor) -> Tensor:
        while x.isnan().any():
            time.sleep(0.1)
        return 3 * x

    names = ("value", "special values", "determinism", "strides")
    started = time.monotonic()
    report = check(subject(reference=endless), *names, silence_s=1.5, rerun=False, processes=1)
    assert time.monotonic() - started < 20
    assert states(report) == {**dict.fromkeys(names, "not run"), "value": "passed", "special values": "failed"}
    (finding,) = report.findings
    assert finding.message == "the reference hangs: no answer on example 1, NaN in x; the kernel was not called"
    assert {r.outcome.note for r in report.results if r.outcome.state == "not run"} == {
        "the reference hangs: see special values"
    }


def test_a_reference_that_crashes_is_to_blame() -> None:
    def crashing(x: Tensor) -> Tensor:
        if x.isnan().any():
            signal.raise_signal(signal.SIGSEGV)
        return 3 * x

    report = check(subject(reference=crashing), "value", "special values", rerun=False)
    assert states(report) == {"value": "passed", "special values": "failed"}
    (finding,) = report.findings
    assert (
        finding.message
        == "the reference crashes: a segmentation fault on example 1, NaN in x; the kernel was not called"
    )


def test_a_crash_behind_a_kernel_s_damage_is_the_kernel_s() -> None:
    is_damaged = False

    def damaging(x: Tensor) -> Tensor:
        nonlocal is_damaged
        is_damaged = True
        return 3 * x

    def crashing(x: Tensor) -> Tensor:
        if is_damaged:
            signal.raise_signal(signal.SIGSEGV)
        return 3 * x

    report = check(subject(damaging, reference=crashing), "value", "special values", rerun=False)
    (finding,) = report.findings
    assert (
        finding.message == "example 1, NaN in x, given values: it crashes: a segmentation fault. "
        "It depends on earlier calls, which the program makes."
    )


def triple(x: Tensor) -> Tensor:
    return 3 * x


def subject(function: Any = triple, *more: Any, reference: Any = triple, **options: Any) -> Subject:
    return subject_of(function, reference=reference, examples=[(torch.ones(4), *more)], **options)


def test_nan_in_an_example_has_its_property():
    report = check(subject(lambda x: torch.nan_to_num(triple(x))), "value", "special values", "strides")
    assert report.failed == ("special values",)


def without_times(report: Report) -> list[tuple[str, Column, str, str]]:
    return [(r.name, r.column, r.outcome.state, str(r.outcome.findings)) for r in report.results]


@pytest.mark.slow("three checks")
@pytest.mark.compile
def test_a_seed_makes_it_again():
    def run(seed: int) -> list[tuple[str, Column, str, str]]:
        return without_times(check(subject_of(operators.wrong, seed=seed), "value", "special values"))

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_check_that_fails_itself_is_no_finding(monkeypatch: pytest.MonkeyPatch):
    def broken(context: Context) -> None:
        raise KeyError("T")

    monkeypatch.setattr(values, "value", broken)
    report = check(subject(), "value", "strides")
    assert states(report) == {"value": "not run", "strides": "passed"}
    outcome = report.results[0].outcome
    assert outcome.is_error
    assert outcome.note == "the check failed with KeyError: 'T'"
    # It is no defect of the operator's, and nothing is proved either.
    assert (report.failed, report.ok) == ((), False)
    assert "1 of 2 properties not judged: the check itself failed" in str(report)
    with pytest.raises(CheckError, match="KeyError"):
        report.raise_if_failed()


def test_a_defect_of_the_oracle_is_not_taken_for_a_refusal_of_the_reference(monkeypatch: pytest.MonkeyPatch):
    def broken(*given: Any) -> None:
        raise IndexError("of the oracle's own")

    monkeypatch.setattr(oracle, "reduction_length", broken)
    report = check(subject(), "value")
    assert report.results[0].outcome.note == "the check failed with IndexError: of the oracle's own"

    def refusing(x: Tensor) -> Tensor:
        raise IndexError("of the reference")

    report = check(subject_of(triple, reference=refusing, examples=[(torch.ones(4),)]), "value")
    assert report.failed == ("value",)
    assert "IndexError: of the reference" in report.findings[0].message


def test_a_watcher_is_told_of_everything():
    told: list[Any] = []
    watch = Watcher(told.append, lambda name, column, doing: told.append((name, column.dtype, doing)))
    report = check(subject(), "value", "strides", watch=watch)
    results = [item for item in told if isinstance(item, Result)]
    assert tuple(results) == report.results
    assert told[0] == ("value", "float32", None)
    assert isinstance(told[1][2], Case)
    assert told[1][2].label == "example 1"
    assert told[told.index(results[0]) + 1] == ("strides", "float32", None)


def test_without_a_child_it_is_the_same():
    both = [without_times(check(subject(), "value", "strides", isolate=isolate)) for isolate in (True, False)]
    assert both[0] == both[1]


def test_an_argument_that_cannot_be_sent_is_no_obstacle():
    class Unsendable:
        def __reduce__(self) -> str:
            raise TypeError("it stays here")

    def reference(x: Tensor, other: Unsendable) -> Tensor:
        return 3 * x

    def wrong(x: Tensor, other: Unsendable) -> Tensor:
        return 2 * x

    for function, state in ((reference, "passed"), (wrong, "failed")):
        found = subject_of(function, reference=reference, examples=[(torch.ones(4), Unsendable())])
        assert states(check(found, "value")) == {"value": state}


def rowwise(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    return x + 1


def elementwise(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    until_s = time.thread_time() + x.shape[1] * 1e-5
    while time.thread_time() < until_s:
        pass
    return x + 1


def test_a_slow_reference_is_spared_the_largest_inputs():
    slow, quick = (without_slow_sizes(subject_of(function, reference=function)) for function in (elementwise, rowwise))
    assert quick.notes == ()
    labels, fewer = ([case.label for case in one.suite.cases({"T": "float32"})] for one in (quick, slow))
    # Its time depends on N alone.
    long_rows = {f"the last element decides, N = {size}" for size in (33001, 66001)}
    long_rows |= {"positive values, N = 70001"}
    assert set(labels) - set(fewer) == {"N = 2048", "N = 4096", "N = 4099", "N = 70001", *long_rows}
    assert "B = 70001" in fewer
    (note,) = slow.notes
    assert note.endswith("s for N = 2048: inputs of that size and larger are left out (--thorough tries them)")


@pytest.mark.slow("compiles with Inductor")
@pytest.mark.compile
def test_a_body_that_is_traced_anew_for_each_size_is_no_fault_of_the_operator():
    report = check(subject_of(operators.running_sum), "value", "gradient", "compile")
    assert report.ok, str(report)
    assert report.results[-1].outcome.note.startswith("one graph for all sizes; the gradient comes from the body")


QUICK = ("value", "sizes", "gradient")


@pytest.mark.compile
@pytest.mark.all_cores
@pytest.mark.parametrize("processes", some([2, 1], 1, "checks that take their whole time"))
def test_a_limit_of_seconds_is_kept_and_every_element_type_is_tried(processes: int):
    subject = subject_of(operators.right)
    report = run_check(subject, CheckPlan(seconds=3.0, processes=processes))
    assert report.seconds < 3.0 * 1.2
    assert report.ok, str(report)
    by_name = {result.name: result.outcome for result in report.results}
    assert list(by_name) == [item.name for item in PROPERTIES if "cpu" in item.devices]
    tried = [result for result in report.results if result.name in QUICK]
    assert len(tried) == len(QUICK) * len(subject.dtypes)
    assert all(result.outcome.state == "passed" and result.outcome.inputs > 0 for result in tried), str(report)
    assert by_name["compile"].is_out_of_time
    (note,) = [note for note in report.notes if "checks did not fit into the time" in note]
    assert "compile" in note
    assert "a longer limit includes them" in note


@pytest.mark.all_cores
def test_what_fails_within_a_limit_is_found_and_made_smaller_in_it():
    found = subject_of(lambda x: x + (x.shape[-1] > 32), reference=rowwise)
    report = run_check(found, CheckPlan(chosen(QUICK), seconds=3.0))
    assert report.seconds < 3.0 * 1.2
    assert "sizes" in report.failed


@pytest.mark.all_cores
def test_a_hang_ends_with_the_limit():
    def hanging(x: Tensor) -> Tensor:
        time.sleep(60.0)
        return x + 1

    report = run_check(subject_of(hanging, reference=rowwise), CheckPlan(chosen(("value", "sizes")), seconds=2.0))
    assert report.seconds < 2.0 * 1.2
    assert all(result.outcome.is_out_of_time for result in report.results)


def test_a_thorough_check_has_no_limit():
    with pytest.raises(ArgumentError, match="thorough and seconds exclude each other"):
        check(subject(), "value", thorough=True, seconds=1.0)
