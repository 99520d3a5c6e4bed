"""What a trace says: the GPU's work by kernel and by call, and the gaps between launches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from opsmith.profiler.trace import activities, busy_of, gap_of, kernels_of, trace_calls


def event(name: str, ts: float, dur: float, cat: str = "kernel", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": more}


# Two calls of two kernels and a copy, out of order as traces are, and something of the CPU's.
TRACE = {
    "traceEvents": [
        event(
            "first", 100, 10, grid=[4, 1, 1], block=[128, 1, 1], **{"registers per thread": 40, "shared memory": 1024}
        ),
        event("aten::add", 90, 50, cat="cpu_op"),
        event("second", 112, 30, **{"est. achieved occupancy %": 50}),
        event("Memcpy DtoD", 145, 5, cat="gpu_memcpy"),
        event("second", 213, 32, **{"est. achieved occupancy %": 50}),
        event(
            "first", 200, 12, grid=[4, 1, 1], block=[128, 1, 1], **{"registers per thread": 40, "shared memory": 1024}
        ),
        event("Memcpy DtoD", 248, 5, cat="gpu_memcpy"),
        {"ph": "M", "name": "process_name"},
    ]
}


def test_only_what_runs_on_the_gpu_is_read_in_order() -> None:
    assert [one.name for one in activities(TRACE)] == ["first", "second", "Memcpy DtoD"] * 2


def test_kernels_come_with_what_a_launch_is_made_of_the_longest_first() -> None:
    second, first, copy = kernels_of(activities(TRACE), 2)
    assert (second.name, first.name, copy.name) == ("second", "first", "Memcpy DtoD")
    assert second.occupancy == 0.5
    assert second.time.middle == pytest.approx(31e-6)
    assert (first.grid, first.block, first.registers, first.shared_bytes) == ((4, 1, 1), (128, 1, 1), 40, 1024)
    assert first.launches == 1
    assert copy.registers is None


def test_what_a_call_takes_is_the_sum_of_its_work_and_gaps_lie_between() -> None:
    found = activities(TRACE)
    assert busy_of(found, 2).middle == pytest.approx(47e-6)
    # 2 and 3 us in the first call, 1 and 3 in the second.
    assert gap_of(found, 2) == pytest.approx(2.5e-6)


def test_a_call_of_one_kernel_has_no_gap() -> None:
    assert gap_of(activities({"traceEvents": [event("one", 0, 1), event("one", 5, 1)]}), 2) is None


def test_where_calls_differ_in_what_they_launch_the_mean_is_all_that_is_known() -> None:
    found = activities({"traceEvents": [event("one", index, 1) for index in range(5)]})
    assert busy_of(found, 2).middle == pytest.approx(2.5e-6)
    assert gap_of(found, 2) is None


def test_nothing_on_the_gpu_is_no_time() -> None:
    with pytest.raises(ValueError, match="nothing ran"):
        busy_of([], 3)


def test_a_trace_of_the_cpu_has_each_call_and_what_is_in_it(tmp_path) -> None:
    numbers: list[int] = []

    def call(index: int) -> None:
        numbers.append(index)
        torch.sin(torch.zeros(4))

    trace = trace_calls(call, 3, "cpu", tmp_path / "new" / "trace.json")
    assert numbers == [0, 0, 1, 2]
    names = [one.get("name") for one in trace["traceEvents"]]
    assert [f"call {index}" in names for index in (1, 2, 3, 4)] == [True, True, True, False]
    assert names.count("aten::sin") == 3
    assert (tmp_path / "new" / "trace.json").stat().st_size > 100
    assert activities(trace) == []
