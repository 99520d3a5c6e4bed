"""On a GPU: kernels with their resources, who waits for whom, and builds side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opsmith
from opsmith.benchmark.builds import BuildOptions, bench_builds
from opsmith.benchmark.measure import Limits
from opsmith.ops.add2 import add2
from opsmith.ops.sigmoid import sigmoid
from opsmith.profiler.ncu import ask_ncu
from opsmith.profiler.resources import find_cuobjdump, of_kernel, resources_of
from opsmith.profiler.timed import PARTS, build_twin
from opsmith.subject.subject import subject_of

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

SMALL, LARGE = {"shape": 256}, {"shape": 1 << 26}

measures = pytest.mark.whole_gpu


@pytest.fixture(scope="module")
def report() -> opsmith.profiler.ProfileReport:
    return opsmith.profile(add2, device="cuda", sizes=[SMALL, LARGE], phases="forward", ncu=False)


@measures
def test_a_small_call_is_bound_by_the_host_and_a_large_one_by_the_gpu(report: opsmith.profiler.ProfileReport) -> None:
    small, large = report.calls
    assert small.gpu is not None
    assert large.gpu is not None
    assert (small.gpu.verdict, large.gpu.verdict) == ("host-bound", "GPU-bound")
    # What waits for the GPU would show here: launching takes as long whatever the size.
    assert large.whole.middle < 20 * small.whole.middle < large.gpu.busy.middle * 20


@measures
def test_a_call_launches_one_kernel_and_what_it_moves_is_possible(report: opsmith.profiler.ProfileReport) -> None:
    gpu = report.calls[1].gpu
    assert gpu is not None
    (kernel,) = gpu.kernels
    assert kernel.launches == 1
    assert gpu.gap_s is None
    assert kernel.registers is not None
    assert 0 < kernel.registers <= 255
    assert kernel.block[0] > 0
    assert gpu.bytes_moved == 3 * 4 * LARGE["shape"]
    assert 0.2 < gpu.of_ceiling < 1.2
    assert gpu.busy.middle <= 1.1 * gpu.wall.middle


@measures
def test_parts_of_the_host_add_up(report: opsmith.profiler.ProfileReport) -> None:
    for call in report.calls:
        names = [part.name for part in call.parts]
        assert names[:3] == ["Python", "autograd", "dispatcher"]
        assert set(PARTS) <= set(names)
        assert next(part.what for part in call.parts if part.name == "kernel") == "launching the kernel"
        assert call.is_believable, str(report)


@measures
def test_what_a_kernel_spills_is_read_from_the_library(report: opsmith.profiler.ProfileReport) -> None:
    gpu = report.calls[1].gpu
    assert gpu is not None
    tool = find_cuobjdump()
    if tool is None:
        assert any("cuobjdump" in note for note in gpu.notes)
        pytest.skip("there is no cuobjdump here")
    twin = build_twin(add2.definition, "cuda")
    assert twin is not None
    known = resources_of(twin.library, tool)
    assert known
    found = of_kernel(known, gpu.kernels[0].name)
    assert found is not None, (gpu.kernels[0].name, list(known))
    # Registers are told by both, and by the same binary.
    assert found.registers == gpu.kernels[0].registers
    assert gpu.kernels[0].local_bytes == found.local_bytes


def test_a_backward_has_its_own_kernel() -> None:
    report = opsmith.profile(sigmoid, device="cuda", sizes=[{"shape": 1 << 20}], phases="backward", ncu=False)
    (call,) = report.calls
    assert "kernel" in [part.name for part in call.parts]
    assert call.gpu is not None
    assert call.gpu.kernels


def test_the_trace_shows_the_kernels(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    opsmith.profile(add2, device="cuda", sizes=[SMALL], phases="forward", ncu=False, trace=trace)
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event.get("cat") == "kernel" for event in events) == 30


@pytest.mark.slow("runs Nsight Compute, or builds three ways")
def test_counters_are_read_or_it_is_said_why_not() -> None:
    import torch

    calls = (torch.randn(1 << 24, device="cuda"), torch.randn(1 << 24, device="cuda"))
    found = ask_ncu(add2.definition, (calls, {}), "forward")
    if "missing" in found:
        assert found["missing"]
        pytest.skip(found["missing"])
    (kernel,) = found["kernels"]
    # Two inputs of 64 MiB are read; part of the output may still be in the cache when the kernel ends.
    assert kernel["dram_read_bytes"] > 0.8 * 2 * 4 * (1 << 24)
    assert 0 < kernel["occupancy"] <= 1


@pytest.mark.slow("runs Nsight Compute, or builds three ways")
def test_three_builds_of_a_cuda_operator_are_equal() -> None:
    options = BuildOptions(rounds=1, sizes=({"shape": 1 << 22},), limits=Limits(rounds=15, seconds=3.0))
    report = bench_builds(subject_of(add2, devices=("cuda",)), "cuda", options)
    assert report.ok
    (call,) = report.calls
    assert {verdict.kind for verdict in call.verdicts.values()} == {"equal"}
