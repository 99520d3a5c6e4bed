"""What samples come to: shares of the machine's limit, and figures that nobody may believe."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.benchmark import ceilings as ceilings_module
from opsmith.benchmark import figures as module
from opsmith.benchmark.agree import Judge
from opsmith.benchmark.ceilings import Ceilings, ceilings
from opsmith.benchmark.conditions import Conditions, CpuTimes, nothing_in_background
from opsmith.benchmark.figures import Figures
from opsmith.benchmark.machine import GpuState
from opsmith.benchmark.measure import Measurement, Series
from opsmith.benchmark.result import Timing
from opsmith.benchmark.work import Work, work_of
from opsmith.benchmark.workload import Workload, workloads
from opsmith.ops.add2 import add2
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.subject import subject_of

# 10 GB/s of copies, 20 of reading; 100 and 1000 GFLOP/s; a launch takes 1 us.
LIMITS = Ceilings(10e9, 20e9, {"float32": 100e9, "bfloat16": 1000e9}, 1e-6)
SIZE = Workload("N 5", Case({"x": TensorRecipe((5,), "float32")}), "float32", "cpu")


def measured(**seconds: float) -> Measurement:
    series = {name: Series((taken,) * 15, (taken,) * 15, 1) for name, taken in seconds.items()}
    return Measurement(series, next(iter(series.values())), 1.0)


def timings(work: Work, is_cold: bool, again: Callable[[], Ceilings], **seconds: float) -> dict[str, Timing]:
    figures, found = Figures(LIMITS, again), measured(**seconds)
    made = {name: figures.timing(SIZE, "forward", name, found, work, is_cold=is_cold) for name in seconds}
    return figures.believed(made, SIZE, work, is_cold=is_cold)


def forbidden() -> Ceilings:
    raise AssertionError("nothing is to be measured again")


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cache_bytes", lambda device: 1_000_000)


def test_the_share_of_the_limit_and_what_it_is():
    moving, computing = Work(50_000_000, 50_000_000, 0), Work(1000, 1000, 10**9)
    found = timings(moving, True, forbidden, opsmith=0.02, eager=0.04)
    assert (found["opsmith"].share, found["opsmith"].bound) == (pytest.approx(0.5), "bandwidth")
    assert found["eager"].share == pytest.approx(0.25)
    assert found["eager"].verdict is not None and found["eager"].verdict.ratio.middle == pytest.approx(2)
    found = timings(computing, True, forbidden, opsmith=0.02, eager=0.04)
    assert (found["opsmith"].share, found["opsmith"].bound) == (pytest.approx(0.5), "compute")
    found = timings(Work(100, 100, 0), True, forbidden, opsmith=2e-6, eager=2e-6)
    assert found["opsmith"].bound == "launch"


def test_a_figure_above_the_limit_is_an_error():
    work = Work(50_000_000, 50_000_000, 0)
    found = timings(work, True, lambda: LIMITS, opsmith=0.004, eager=0.02)
    assert found["opsmith"].error.startswith("wrong figure: 2.50 times what the machine's bandwidth allows")
    assert found["opsmith"].is_wrong
    assert found["eager"].error == ""


def test_reading_alone_may_be_faster_than_copying():
    work = Work(50_000_000, 0, 0)
    found = timings(work, True, forbidden, opsmith=0.0026, eager=0.02)
    assert found["opsmith"].error == ""


def test_the_limits_are_measured_again_before_anybody_is_accused():
    better = Ceilings(40e9, 40e9, LIMITS.matmul_flops_s, 1e-6)
    work = Work(50_000_000, 50_000_000, 0)
    assert timings(work, True, lambda: better, opsmith=0.004, eager=0.02)["opsmith"].error == ""


def test_more_operations_than_the_fastest_type_allows():
    work = Work(1000, 1000, 10**9)
    assert timings(work, True, forbidden, opsmith=0.002, eager=0.02)["opsmith"].error == ""
    assert "compute" in timings(work, True, lambda: LIMITS, opsmith=0.0005, eager=0.02)["opsmith"].error


def test_what_lies_in_the_cache_has_no_limit_of_memory():
    # 800 kB are read and written: the cache holds them, unless other inputs have come in between.
    work = Work(400_000, 400_000, 0)
    warm = timings(work, False, forbidden, opsmith=1.2e-6, eager=0.02)["opsmith"]
    assert (warm.error, warm.share, warm.bound) == ("", None, "cache")
    assert warm.notes == ("the inputs stay in the cache",)
    cold = timings(work, True, lambda: LIMITS, opsmith=1.2e-6, eager=0.02)["opsmith"]
    assert cold.is_wrong


def test_a_reference_that_reads_a_part_of_its_inputs_sets_no_limit():
    found = timings(Work(50_000_000, 1000, 0), True, lambda: LIMITS, opsmith=1e-5, eager=2e-5)
    assert [timing.error for timing in found.values()] == ["", ""]
    assert found["opsmith"].share is None
    assert "moves less memory than its inputs" in found["opsmith"].notes[-1]


def test_the_best_of_two_measurements():
    other = Ceilings(5e9, 30e9, {"float32": 50e9, "float64": 1e9}, 2e-6)
    best = LIMITS.best_of(other)
    assert best == Ceilings(10e9, 30e9, {"float32": 100e9, "bfloat16": 1000e9, "float64": 1e9}, 1e-6)


def test_limits_are_kept_and_measured_again_where_the_machine_was_busy(monkeypatch: pytest.MonkeyPatch, tmp_path):
    made = iter([(LIMITS, False), (Ceilings(30e9, 1e9, {}, 1e-6), True)])
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ceilings_module, "_measure", lambda device: next(made))
    assert ceilings("cpu") == LIMITS
    assert ceilings("cpu") == LIMITS  # not again in one process
    ceilings_module._measured_here.clear()
    assert ceilings("cpu").copy_bytes_s == 30e9
    ceilings_module._measured_here.clear()
    assert ceilings("cpu").read_bytes_s == 20e9  # nothing is left to measure: it is known
    (file,) = (path for path in tmp_path.rglob("ceilings/*.json"))
    file.write_text("{}")
    monkeypatch.setattr(ceilings_module, "_measure", lambda device: (LIMITS, True))
    assert ceilings("cpu") == LIMITS


@pytest.mark.slow("measures the memory of this machine")
def test_limits_of_this_machine():
    found, _ = ceilings_module._measure("cpu")
    assert found.copy_bytes_s > 1e8
    assert found.read_bytes_s > 1e8
    assert found.matmul_flops_s["float32"] > 1e8
    assert 1e-8 < found.launch_s < 1e-2


# Work.


@opsmith.op(outputs="y")
def scaled(x: Float[Tensor, "B N"], by: Float[Tensor, "N"]) -> Float[Tensor, "B N"]:
    """Return x * by."""
    return x * by


@scaled.flops
def scaled_flops(x: Tensor, by: Tensor) -> int:
    return x.numel()


@scaled.backward()
def scaled_backward(
    grad_y: Float[Tensor, "B N"], x: Float[Tensor, "B N"], by: Float[Tensor, "N"]
) -> tuple[Float[Tensor, "B N"], Float[Tensor, "N"]]:
    """Return the gradients."""
    return grad_y * by, (grad_y * x).sum(0)


@scaled_backward.flops
def scaled_backward_flops(grad_y: Tensor, x: Tensor, by: Tensor) -> int:
    return 3 * grad_y.numel()


def test_bytes_and_declared_operations():
    subject = subject_of(scaled, devices=("cpu",))
    values = {"x": torch.randn(4, 8), "by": torch.randn(8)}
    assert work_of(subject, "forward", values) == Work(4 * (32 + 8), 4 * 32, 32)
    assert work_of(subject, "backward", values) == Work(4 * (32 + 32 + 8), 4 * (32 + 8), 96)
    assert work_of(subject, "both", values) == Work(4 * (40 + 72), 4 * (32 + 40), 128)


def test_operations_are_counted_where_none_are_declared():
    def matmul(a: Float[Tensor, "M K"], b: Float[Tensor, "K N"]) -> Float[Tensor, "M N"]:
        return a @ b

    subject = subject_of(matmul, reference=matmul, devices=("cpu",))
    values = {"a": torch.randn(4, 8), "b": torch.randn(8, 2)}
    assert work_of(subject, "forward", values).flops == 2 * 4 * 8 * 2
    assert work_of(subject, "both", values).flops == 3 * 2 * 4 * 8 * 2


def test_what_is_expanded_is_read_once():
    subject = subject_of(scaled, devices=("cpu",))
    values = {"x": torch.randn(1, 8).expand(4, 8), "by": torch.randn(8)}
    assert work_of(subject, "forward", values).read == 4 * (8 + 8)


def test_a_gradient_that_is_passed_on_moves_nothing():
    subject = subject_of(add2, devices=("cpu",))
    values = {"a": torch.ones(8), "b": torch.ones(8)}
    assert work_of(subject, "forward", values) == Work(4 * 16, 4 * 8, 0)
    assert work_of(subject, "backward", values) == Work(0, 0, 0)
    assert work_of(subject, "both", values) == work_of(subject, "forward", values)


# Agreement.


def judge_of(count: int, reference: Callable[[Tensor], Tensor], dtype: str = "float32") -> tuple[Judge, Tensor]:
    def annotated(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return reference(x)

    subject = subject_of(annotated, reference=annotated, devices=("cpu",))
    (workload,) = workloads(subject, "cpu", [dtype], [{"N": count}])
    values = workload.inputs(0)
    judge = Judge(subject, workload, "forward", values)
    judge.learn()
    return judge, values["x"]


@pytest.mark.parametrize("count", [1000, 1 << 19])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_is_no_disagreement_and_a_wrong_element_is(count: int, dtype: str):
    judge, x = judge_of(count, torch.sigmoid, dtype)
    right = (1 / (1 + (-x.float()).exp())).to(x.dtype)
    assert judge.disagreement([right]) is None
    wrong = right.clone()
    wrong[count // 2] += 0.1
    assert "output 0" in str(judge.disagreement([wrong]))
    missing = right.clone()
    missing[7] = float("nan")
    assert judge.disagreement([missing]) is not None
    assert "the shape" in str(judge.disagreement([right[:-1]]))
    assert judge.disagreement([]) is not None


def test_integers_are_right_or_wrong():
    def top(x: Tensor) -> Tensor:
        return x.argsort()

    judge, x = judge_of(1 << 19, top)
    assert judge.disagreement([x.argsort()]) is None
    assert "differs from the reference's in 2 of" in str(
        judge.disagreement([x.argsort().index_fill(0, torch.tensor([0, 1]), -1)])
    )


# Conditions.


def cpu_times(*values: CpuTimes) -> Callable[[], CpuTimes]:
    found = iter(values)
    return lambda: next(found)


def test_other_programs_are_told_apart_from_this_one():
    before, after = CpuTimes(100.0, 50.0, 1.0, 10.0), CpuTimes(116.0, 60.0, 1.5, 20.0)
    conditions = Conditions("cpu", read_cpu=cpu_times(before, after), cores=2)
    found, warned = conditions.finish()
    assert found["others_share"] == pytest.approx(0.3)  # 6 of 20 seconds
    assert found["stolen_share"] == pytest.approx(0.025)
    (text,) = warned
    assert text.startswith("other programs took 30% of the 2 cores")


def test_a_quiet_machine_is_no_warning():
    before, after = CpuTimes(100.0, 50.0, 0.0, 10.0), CpuTimes(119.0, 68.5, 0.0, 20.0)
    assert Conditions("cpu", read_cpu=cpu_times(before, after), cores=2).finish()[1] == ()


def test_the_hypervisor_s_share_is_told():
    before, after = CpuTimes(0.0, 0.0, 0.0, 0.0), CpuTimes(10.0, 10.0, 5.0, 10.0)
    (text,) = Conditions("cpu", read_cpu=cpu_times(before, after), cores=2).finish()[1]
    assert "hypervisor gave 25%" in text


def test_a_gpu_that_is_held_back_is_told():
    cool, hot = GpuState(1980, 2600, 1980, 40, 300, 0), GpuState(1200, 2600, 1980, 88, 700, 0x20)
    states = iter([cool, hot])
    conditions = Conditions("cuda", read_gpu=lambda: next(states), read_cpu=lambda: None)
    found, warned = conditions.finish()
    assert warned == ("the GPU was throttled after timing: 1200 of 1980 MHz, 88 C, 700 W",)
    assert found["gpu_before"]["celsius"] == 40
    assert found["gpu_after"]["is_throttled"]
    nearly = iter([GpuState(1965, 2600, 1980, 45, 470, 0x4)] * 2)
    assert Conditions("cuda", read_gpu=lambda: next(nearly), read_cpu=lambda: None).finish()[1] == ()
    idle = iter([GpuState(345, 2600, 1980, 40, 70, 0x1), GpuState(1980, 2000, 1980, 41, 300, 0x2)])
    (text,) = Conditions("cuda", read_gpu=lambda: next(idle), read_cpu=lambda: None).finish()[1]
    assert text == "the GPU's memory clock changed from 2600 to 2000 MHz"


def test_where_nothing_can_be_read_nothing_is_said():
    found, warned = Conditions("cuda", read_gpu=lambda: None, read_cpu=lambda: None).finish()
    assert warned == ()
    assert found["others_share"] is None


def test_nothing_is_built_in_the_background_of_what_is_timed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPSMITH_BRIDGE", raising=False)
    monkeypatch.setenv("OPSMITH_PCH", "auto")
    with nothing_in_background():
        assert (os.environ["OPSMITH_BRIDGE"], os.environ["OPSMITH_PCH"]) == ("wait", "off")
    assert "OPSMITH_BRIDGE" not in os.environ
    assert os.environ["OPSMITH_PCH"] == "auto"
    monkeypatch.setenv("OPSMITH_BRIDGE", "off")
    with nothing_in_background():
        assert os.environ["OPSMITH_BRIDGE"] == "off"  # somebody has said so
