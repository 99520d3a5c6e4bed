"""A report as data and as text: what adds up and what does not, bars, verdicts, and what could not be found out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from opsmith.benchmark.machine import Machine
from opsmith.benchmark.statistics import Interval
from opsmith.profiler.result import CallProfile, Gpu, Kernel, Part, ProfileReport
from opsmith.report.profile.text import call_lines, report_lines

US = 1e-6
MACHINE = Machine("cpu", "A Processor", 2, 2, "Linux", "2.13.0", "3.11", "")


def exactly(seconds: float) -> Interval:
    return Interval(seconds, seconds, seconds)


def part(name: str, seconds: float, whole: float = 10 * US, low: float | None = None) -> Part:
    return Part(name, f"what {name} is", Interval(seconds, seconds if low is None else low, seconds), seconds / whole)


CALL = CallProfile(
    "B 64, N 4096",
    "float32",
    "forward",
    exactly(10 * US),
    (part("Python", 4 * US), part("copies", 1e-9, low=-1e-9), part("kernel", 6 * US)),
    Interval(1.0, 0.98, 1.01),
    40,
)
KERNEL = Kernel("void add<float>()", exactly(3 * US), 1, (64, 1, 1), (256, 1, 1), 24, 0, 48, 0.5)
GPU = Gpu((KERNEL,), exactly(3 * US), exactly(5 * US), exactly(5 * US), None, 9_000_000, 3e12, 0.75)


def report(*calls: CallProfile, **more: Any) -> ProfileReport:
    return ProfileReport("ns.op", MACHINE, calls, 0, 3.0, **more)


def text(call: CallProfile, device: str = "cpu") -> str:
    return "\n".join(call_lines(call, device))


def test_each_part_has_a_bar_as_long_as_its_share() -> None:
    lines = text(CALL).splitlines()
    assert lines[0] == "B 64, N 4096, float32, forward: one call takes 10.0 us [10.0, 10.0]"
    assert [line.count("▇") for line in lines[1:4]] == [8, 0, 12]
    assert "40 %" in lines[1]
    assert "4.00 us [4.00, 4.00]" in lines[1]
    assert lines[1].endswith("what Python is")


def test_what_is_within_its_noise_is_given_as_a_bound() -> None:
    line = text(CALL).splitlines()[2]
    assert "< 1.00 ns" in line
    assert "%" not in line


def test_parts_that_add_up_are_said_to_and_are_well() -> None:
    assert CALL.uncertainty == pytest.approx(0.02)
    assert report(CALL).ok
    assert "  the parts add up to the call within 2 % (with clocks inside, without their own time: -2 to +1 %)" in text(
        CALL
    )


@pytest.mark.parametrize(
    "wrong",
    [
        replace(CALL, agreement=Interval(1.5, 1.4, 1.6)),
        replace(CALL, agreement=Interval(1.0, 0.6, 1.1)),
        replace(CALL, parts=CALL.parts[:1]),
    ],
    ids=["the twin is slower", "noise", "a part is missing"],
)
def test_parts_that_do_not_add_up_are_not_well(wrong: CallProfile) -> None:
    assert not report(CALL, wrong).ok
    assert "  ! the parts add up" in text(wrong)


def test_a_whole_that_was_timed_alone_is_shown_alone() -> None:
    alone = replace(CALL, parts=(), agreement=None, notes=("it is no operator of opsmith's",))
    assert text(alone).count("\n") == 0
    assert report(alone).ok
    assert "– it is no operator of opsmith's" in list(report_lines(report(alone)))


def test_a_report_without_a_call_is_not_well() -> None:
    assert not report().ok


@pytest.mark.parametrize(
    ("busy", "host", "verdict", "words"),
    [
        (3, 5, "host-bound", "a CUDA graph may"),
        (50, 5, "GPU-bound", "which other calls hide"),
    ],
)
def test_who_waits_for_whom_is_said(busy: float, host: float, verdict: str, words: str) -> None:
    gpu = replace(GPU, busy=exactly(busy * US), host=exactly(host * US))
    assert gpu.verdict == verdict
    assert f"{verdict}, launching takes 5.00 us" in text(replace(CALL, gpu=gpu), "cuda")
    assert words in text(replace(CALL, gpu=gpu), "cuda")


def test_where_the_intervals_overlap_nobody_is_said_to_wait() -> None:
    assert replace(GPU, busy=Interval(5 * US, 4 * US, 6 * US)).verdict == "balanced"


def test_a_kernel_is_shown_with_its_launch_and_its_resources() -> None:
    lines = text(replace(CALL, gpu=GPU), "cuda").splitlines()
    assert "launching one call takes" in lines[0]
    assert "9.00 MB of the definition in that time: 3.00 TB/s, 75 % of a copy's bandwidth here" in "\n".join(lines)
    (row,) = [line.split() for line in lines if "add<float>" in line]
    assert row[2:] == ["1", "3.00", "us", "64x1x1", "256x1x1", "24", "0", "B", "48", "B", "50", "%"]


def test_what_is_not_known_of_a_kernel_is_a_dash_and_why() -> None:
    bare = replace(KERNEL, registers=None, shared_bytes=None, local_bytes=None, occupancy=None)
    gpu = replace(GPU, kernels=(bare,), ncu={"missing": "ncu is not on PATH"}, notes=("spills are unknown",))
    shown = text(replace(CALL, gpu=gpu), "cuda")
    (row,) = [line.split() for line in shown.splitlines() if "add<float>" in line]
    assert row[-4:] == ["–"] * 4
    assert "– counters: ncu is not on PATH" in shown
    assert "– spills are unknown" in shown


def test_counters_are_shown_where_they_are_there() -> None:
    counters = {"name": "add", "dram_read_bytes": 8e6, "dram_written_bytes": 4e6, "dram_share": 0.7, "occupancy": 0.9}
    shown = text(replace(CALL, gpu=replace(GPU, ncu={"kernels": [counters]})), "cuda")
    assert "counters (ncu): add: 12.0 MB to and from memory, 70 % of its peak, 90 % of the warps active" in shown


def test_json_has_what_follows_from_the_figures_too() -> None:
    read = json.loads(report(replace(CALL, gpu=GPU), warnings=("busy",)).to_json())
    assert (read["format"], read["ok"], read["operator"], read["warnings"]) == (1, True, "ns.op", ["busy"])
    (call,) = read["calls"]
    assert call["uncertainty"] == pytest.approx(0.02)
    assert call["parts"][0]["time"] == {"middle": 4 * US, "low": 4 * US, "high": 4 * US}
    assert call["gpu"]["verdict"] == "host-bound"
    assert call["gpu"]["kernels"][0]["local_bytes"] == 48
