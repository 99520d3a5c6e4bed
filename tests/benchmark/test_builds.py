"""Builds side by side: what each takes, that their results are the same, and what a report says where they are not."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import kit_three
import pytest
import torch
from click.testing import CliRunner

from opsmith.benchmark.build_result import BuildReport, BuildTimes, CallTimes
from opsmith.benchmark.builds import BuildOptions, bench_builds, differing_builds
from opsmith.benchmark.extremes import extreme_workloads
from opsmith.benchmark.machine import Machine
from opsmith.benchmark.measure import Limits
from opsmith.benchmark.statistics import Interval, Verdict
from opsmith.build import builders
from opsmith.cli.bench import command
from opsmith.errors import ArgumentError
from opsmith.report.bench.builds import build_lines
from opsmith.subject.subject import subject_of

SIZES = ({"N": 64},)
QUICK = BuildOptions(rounds=1, sizes=SIZES, limits=Limits(rounds=5, seconds=0.5))
EQUAL = Verdict("equal", Interval(1.0, 0.99, 1.01), 0.02)
REPORT = BuildReport(
    "ns.op",
    Machine("cpu", "A Processor", 2, 2, "Linux", "2.13.0", "3.11", ""),
    (
        BuildTimes("jit", (1.0, 2.0, 1.5), (0.5,), (0.01, 0.02), 86_000, "a" * 64),
        BuildTimes("setuptools", (2.0,), (1.0,), (0.001,), 86_000, "a" * 64),
        BuildTimes("cmake", left_out="cmake is not installed"),
    ),
    (CallTimes("N 64", "float32", {"jit": Interval(2e-6, 1e-6, 3e-6)}, {"setuptools": EQUAL}, 40, 0.02),),
    12.0,
)


def lines(report: BuildReport) -> list[str]:
    return list(build_lines(report))


def test_each_builder_has_a_row_with_the_spread_of_its_times() -> None:
    (row,) = [line for line in lines(REPORT) if line.split()[:1] == ["jit"]]
    assert "1.50 s [1.00 s, 2.00 s]" in row
    assert "500 ms  " in row
    assert row.endswith("86.0 kB   aaaaaaaa")
    assert "– cmake is left out: cmake is not installed" in lines(REPORT)


def test_calls_are_given_as_the_time_of_the_first_and_verdicts_of_the_others() -> None:
    (row,) = [line for line in lines(REPORT) if line.strip().startswith("N 64")]
    assert row.split() == ["N", "64,", "float32", "2.00", "us", "no", "difference", "2", "%"]


def test_libraries_are_said_to_be_the_same_where_their_bytes_are() -> None:
    assert "  the 2 libraries are the same, byte for byte" in lines(REPORT)
    other = replace(REPORT, builds=(REPORT.builds[0], replace(REPORT.builds[1], sha256="b" * 64)))
    assert not other.are_identical
    assert "  the 2 libraries are not identical" in lines(other)


def test_other_results_are_what_is_wrong_and_other_times_are_not() -> None:
    assert REPORT.ok
    wrong = replace(REPORT, calls=(replace(REPORT.calls[0], differing=("setuptools",)),))
    assert not wrong.ok
    assert "✗ setuptools gives other results than jit for N 64" in lines(wrong)
    assert json.loads(wrong.to_json())["ok"] is False


def changed(index: int, value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the operator with one number of its result made another."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = 2 * x
        y[index] = value
        return y

    return function


@pytest.mark.parametrize(("ours", "theirs"), [(float("nan"), float("nan")), (0.0, 0.0)])
def test_equal_bits_are_equal_results(ours: float, theirs: float) -> None:
    assert differing({"jit": changed(3, ours), "cmake": changed(3, theirs)}) == ()


@pytest.mark.parametrize(("ours", "theirs"), [(0.0, -0.0), (1.0, 1.0000001)])
def test_who_gives_other_bits_than_the_first_is_named(ours: float, theirs: float) -> None:
    functions = {"jit": changed(3, ours), "setuptools": changed(3, ours), "cmake": changed(3, theirs)}
    assert differing(functions) == ("cmake",)


def test_where_the_first_does_not_repeat_itself_nobody_is_named() -> None:
    assert differing({"jit": torch.rand_like, "cmake": changed(3, 1.0)}) == ()


def test_what_a_call_writes_to_is_a_result() -> None:
    def doubled(x: torch.Tensor) -> None:
        x.mul_(2)

    def tripled(x: torch.Tensor) -> None:
        x.mul_(3)

    functions = {"jit": doubled, "setuptools": doubled, "cmake": tripled}
    assert differing(functions, mutated=("x",)) == ("cmake",)


def differing(functions: dict[str, Callable[..., Any]], **changes: Any) -> tuple[str, ...]:
    subject = replace(subject_of(kit_three.body_alone, devices=("cpu",)), **changes)
    (workload,) = extreme_workloads(subject, "cpu", sizes=SIZES)
    return differing_builds(subject, workload, functions)


@pytest.mark.compile
@pytest.mark.nightly("builds one operator three ways, as the demo of make test-all does")
def test_the_three_builds_of_an_operator_are_equal() -> None:
    told: list[str] = []
    report = bench_builds(subject_of(kit_three.twice, devices=("cpu",)), "cpu", QUICK, told.append)
    assert report.ok
    assert report.are_identical
    done = [build for build in report.builds if not build.left_out]
    assert [build.builder for build in report.builds] == ["jit", "setuptools", "cmake"]
    for build in done:
        assert (len(build.cold_s), len(build.again_s), len(build.load_s)) == (1, 3, 2)
        assert 0 < max(build.load_s) < min(build.cold_s)
    (call,) = report.calls
    assert set(call.times) == {build.builder for build in done}
    assert set(call.verdicts) == set(call.times) - {"jit"}
    assert told[-1] == "calls, N 64"


@pytest.mark.compile
@pytest.mark.nightly("builds one operator three ways, as the demo of make test-all does")
def test_a_builder_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "setuptools" else found(name))
    monkeypatch.setattr(
        "opsmith.benchmark.builds.BUILDERS", {name: builders.BUILDERS[name] for name in ("jit", "setuptools")}
    )
    report = bench_builds(subject_of(kit_three.twice, devices=("cpu",)), "cpu", QUICK)
    assert [bool(build.left_out) for build in report.builds] == [False, True]
    assert 'pip install "opsmith[setuptools]"' in report.builds[1].left_out
    assert list(report.calls[0].times) == ["jit"]


@pytest.mark.compile
def test_what_opsmith_does_not_build_has_no_builds_to_compare() -> None:
    with pytest.raises(ArgumentError, match="body_alone is not built by opsmith"):
        bench_builds(subject_of(kit_three.body_alone, devices=("cpu",)), "cpu", QUICK)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html", "page.html"], "--html cannot be combined with --builds"),
        (["--against", "compiled"], "--against cannot be combined with --builds"),
        (["--dtype", "float32", "--dtype", "float16"], "--builds takes only one --dtype"),
        (["--size", "N=x"], "write names and whole numbers"),
        (["--dtype", "int9"], "unknown element type 'int9'"),
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str], message: str) -> None:
    path = f"{Path(kit_three.__file__)}::twice"
    done = CliRunner().invoke(command, [path, "--builds", "--device", "cpu", *arguments])
    assert done.exit_code == 2, done.output
    assert message in done.output
