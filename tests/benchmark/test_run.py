"""Small real runs: operators of every kind, and competitors that are wrong, that fail, and that take for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from opsmith.benchmark.competitors import Competitor
from opsmith.benchmark.measure import Limits
from opsmith.benchmark.options import BenchOptions
from opsmith.benchmark.progress import Progress
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.run import run_bench
from opsmith.errors import ArgumentError
from opsmith.subject.subject import subject_of

QUICK = Limits(rounds=5, most_rounds=5)


def run(
    op: Any,
    reference: Callable[..., Any] | None = None,
    examples: Any = None,
    limits: Limits = QUICK,
    extra: tuple[Competitor, ...] = (),
    **options: Any,
) -> BenchReport:
    subject = subject_of(op, reference=reference, examples=examples, devices=("cpu",))
    chosen = BenchOptions(**{"against": ("eager",), "seconds": 20.0, **options})
    return run_bench(subject, "cpu", chosen, limits=limits, extra=extra)


def timing_of(report: BenchReport, competitor: str, phase: str = "forward") -> Timing:
    (found,) = [t for t in report.timings if (t.competitor, t.phase) == (competitor, phase)]
    return found


def double(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    return x * 2


def double_by_sum(x: Tensor) -> Tensor:
    return x + x


SMALL = ({"B": 4, "N": 8},)


def test_all_phases_of_a_function():
    report = run(double_by_sum, double, sizes=SMALL)
    assert report.ok
    assert [(t.competitor, t.phase) for t in report.timings] == [
        (name, phase) for phase in ("forward", "backward", "both") for name in ("operator", "eager")
    ]
    for timing in report.timings:
        assert timing.error == ""
        assert timing.time is not None and 0 < timing.time.low <= timing.time.middle <= timing.time.high
        assert timing.wall == timing.time  # on the CPU there is one clock
        assert timing.rounds == 5
        assert (timing.verdict is None) == timing.is_own
    forward, backward = timing_of(report, "operator"), timing_of(report, "operator", "backward")
    assert (forward.bytes_moved, forward.workload) == (4 * 8 * 4 * 2, "B 4, N 8")
    # Nothing is known of how it is done: the gradient, the input, and the gradient that is written.
    assert backward.bytes_moved == 4 * 8 * 4 * 3
    assert report.conditions["threads"] == torch.get_num_threads()
    assert report.machine.threads == torch.get_num_threads()


def test_a_report_is_read_again():
    report = run(double_by_sum, double, sizes=SMALL, phases=("forward",))
    assert BenchReport.from_json(report.to_json()) == report


@pytest.mark.slow("times an operator")
def test_a_competitor_that_computes_something_else_is_not_timed():
    report = run(double_by_sum, double, sizes=SMALL, extra=(Competitor("wrong", lambda x: x * 2.001),))
    for phase in ("forward", "backward"):
        wrong = timing_of(report, "wrong", phase)
        assert wrong.time is None
        assert wrong.error.startswith("wrong result, not timed: output 0[")
        assert timing_of(report, "operator", phase).error == ""
    assert not report.ok


def test_an_operator_that_is_wrong_at_a_large_size():
    def wrong_from_a_million_on(x: Tensor) -> Tensor:
        result = x * 2
        if x.numel() >= 1 << 20:
            result[-1, -1] += 0.01
        return result

    report = run(
        wrong_from_a_million_on, double, sizes=({"B": 4, "N": 8}, {"B": 1 << 10, "N": 1 << 10}), phases=("forward",)
    )
    errors = {t.workload: t.error for t in report.timings if t.is_own}
    assert errors["B 4, N 8"] == ""
    assert "is off by up to 0.01" in errors["B 1024, N 1024"]
    assert not report.ok


def test_what_becomes_wrong_while_it_is_timed_is_found():
    calls = [0]

    def tires(x: Tensor) -> Tensor:
        calls[0] += 1
        return x * 2 if calls[0] < 20 else x * 3

    report = run(tires, double, sizes=SMALL, phases=("forward",))
    assert timing_of(report, "operator").error.startswith("wrong result after timing")
    assert not report.ok


def test_a_competitor_that_fails_is_a_row():
    def fails(x: Tensor) -> Tensor:
        raise NotImplementedError("no kernel for this\nand more")

    report = run(double_by_sum, double, sizes=SMALL, phases=("forward",), extra=(Competitor("fails", fails),))
    assert timing_of(report, "fails").error == "failed: NotImplementedError: no kernel for this"
    assert timing_of(report, "operator").verdict is None
    assert timing_of(report, "eager").verdict is not None
    assert report.ok  # nothing is wrong about the operator


@pytest.mark.slow("times operators that wait")
def test_a_competitor_that_is_too_slow_is_left_out():
    def slow(x: Tensor) -> Tensor:
        time.sleep(0.9)
        return x * 2

    report = run(
        double_by_sum, double, sizes=SMALL, phases=("forward",), seconds=4.0, extra=(Competitor("slow", slow),)
    )
    assert timing_of(report, "slow").error.startswith("not timed: 5 rounds take")
    assert "--seconds" in timing_of(report, "slow").error
    assert timing_of(report, "operator").time is not None


@pytest.mark.slow("times an operator that waits")
def test_an_operator_that_is_too_slow_says_so_and_comes_to_an_end():
    def slow(x: Tensor) -> Tensor:
        time.sleep(0.5)
        return x * 2

    started = time.perf_counter()
    report = run(slow, slow_reference, [(torch.ones(3),)], seconds=2.0)
    assert time.perf_counter() - started < 60
    assert {t.phase for t in report.timings} == {"forward", "backward", "both"}
    for timing in report.timings:
        assert timing.time is None
        assert timing.error.startswith("not timed:")


def slow_reference(x: Tensor) -> Tensor:
    time.sleep(0.2)
    return x * 2


def test_integers_have_no_backward():
    def twice(x: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        return x * 2

    report = run(lambda x: x + x, twice, sizes=({"N": 100},))
    assert {t.phase for t in report.timings} == {"forward"}
    assert {t.dtype for t in report.timings} == {"int32"}
    assert report.ok


def test_a_reference_without_a_gradient_has_no_backward():
    report = run(lambda x: (x * 2).detach(), lambda x: (x + x).detach(), [(torch.randn(5),)])
    assert {t.phase for t in report.timings} == {"forward"}
    assert all(t.time is not None for t in report.timings)


@pytest.mark.slow("times several phases")
def test_an_operator_without_the_gradient_that_its_reference_has_says_so():
    report = run(lambda x: (x * 2).detach(), lambda x: x * 2, [(torch.randn(5),)])
    assert timing_of(report, "operator", "backward").error == "failed: RuntimeError: its results have no gradient"
    assert timing_of(report, "operator").time is not None


@pytest.mark.slow("times an operator of many results")
def test_several_results_optional_tensors_and_keywords():
    def reference(
        x: Float[Tensor, "B N"], bias: Float[Tensor, "N"] | None, *, scale: float = 2.0
    ) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B"]]:
        scaled = x * scale if bias is None else x * scale + bias
        return scaled, x.sum(1)

    def operator(x: Tensor, bias: Tensor | None, *, scale: float = 2.0) -> tuple[Tensor, Tensor]:
        return reference(x, bias, scale=scale)

    report = run(operator, reference, sizes=SMALL)
    assert all(t.error == "" for t in report.timings)
    # x and bias are read, both results are written.
    assert timing_of(report, "operator").bytes_moved == 4 * (32 + 8) + 4 * (32 + 4)
    given = run(operator, reference, [(torch.randn(3, 2), None)])
    assert all(t.error == "" for t in given.timings)


def grow(x: Tensor, by: Tensor) -> None:
    x.mul_(by)


@pytest.fixture
def foreign() -> Iterator[Any]:
    with torch.library._scoped_library("opsmith_bench_run", "DEF") as library:
        library.define("grow_(Tensor(a!) x, Tensor by) -> ()")
        library.impl("grow_", grow, "CompositeExplicitAutograd")
        library.define("late(Tensor x) -> Tensor")
        library.impl("late", lambda x: x * 2, "CPU")
        yield torch.ops.opsmith_bench_run


def test_arguments_that_are_written_to_are_put_back(foreign: Any):
    x = torch.full((100,), 3.0)
    # Without that, a thousand calls would make infinities of it.
    report = run(foreign.grow_, grow, [(x, torch.tensor(2.0))])
    assert [(t.competitor, t.phase, t.error) for t in report.timings] == [
        ("operator", "forward", ""),
        ("eager", "forward", ""),
    ]
    assert timing_of(report, "operator").bytes_moved == 4 * (100 + 1) + 4 * 100
    assert torch.equal(x, torch.full((100,), 3.0))


@pytest.mark.slow("times an operator of another library")
def test_an_operator_of_another_library(foreign: Any):
    report = run(foreign.late, lambda x: x + x, [(torch.randn(100),)])
    assert timing_of(report, "operator").error == ""
    assert timing_of(report, "operator").time is not None


def test_what_is_told_while_it_runs():
    told: list[Progress] = []
    subject = subject_of(double_by_sum, reference=double, devices=("cpu",))
    options = BenchOptions(against=("eager",), sizes=SMALL, seconds=20.0, phases=("forward", "both"))
    report = run_bench(subject, "cpu", options, told.append, limits=QUICK)
    assert told[0].doing == "building the operator"
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    assert told[-1].timings == report.timings[:2]
    assert all(progress.total == 2 for progress in told)


def test_threads_are_fixed_and_given_back():
    before = torch.get_num_threads()
    report = run(double_by_sum, double, sizes=SMALL, phases=("forward",), threads=1)
    assert (report.machine.threads, report.conditions["threads"]) == (1, 1)
    assert torch.get_num_threads() == before


def test_threads_that_somebody_changes_are_told():
    before = torch.get_num_threads()

    def greedy(x: Tensor) -> Tensor:
        torch.set_num_threads(before + 1)
        return x * 2

    try:
        report = run(greedy, double, sizes=SMALL, phases=("forward",))
        assert any("PyTorch's number of threads changed" in text for text in report.warnings)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": ({"B": 4},)}, "the size N is missing"),
        ({"sizes": ({"B": 4, "N": 4, "M": 1},)}, "has no size M; it has B, N"),
        ({"dtypes": ("int32",)}, "has no element type int32; it has"),
        ({"against": ("nobody",)}, "has no competitor 'nobody' on cpu; there are eager, compiled, max-autotune"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        run(double_by_sum, double, **options)


@pytest.mark.nightly("compiles with Inductor; make test has one that there is no time to compile")
def test_torch_compile_is_a_competitor():
    report = run(double_by_sum, double, sizes=SMALL, against=("compiled",), seconds=120.0)
    for phase in ("forward", "backward", "both"):
        compiled = timing_of(report, "compiled", phase)
        assert compiled.error == ""
        assert compiled.prepare_s > 0
        assert compiled.verdict is not None


def test_what_there_is_no_time_to_compile_is_said():
    def never_compiled(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        return x * 2

    report = run(double_by_sum, never_compiled, sizes=SMALL, against=("compiled",), phases=("forward",), seconds=0.02)
    assert timing_of(report, "compiled").error.startswith("not timed: ")
