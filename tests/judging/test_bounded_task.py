"""A task whose reference does not return, or takes too much, ends in a verdict on the task, in the time that is stated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from judging_kit.candidates import RIGHT, judged
from torch import Tensor

from opsmith.benchmark.deadline import OutOfTime, time_limit
from opsmith.judging.api import judge
from opsmith.judging.bounded_task import BoundedTask, OverLimit, TaskLimits
from opsmith.judging.candidate import Entry
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement
from opsmith.judging.task import Task

LIMITS = TaskLimits(0.1, 0.2, 0.5, 1 << 30)


def bounded(reference: Callable[..., Any], limits: TaskLimits = LIMITS) -> BoundedTask:
    """Return a task of one argument."""
    make = lambda seed: {"x": torch.zeros(3)}  # noqa: E731
    return BoundedTask(Task("some", "function", ("x",), reference, make, Entry(("f",))), limits)


def hang(*_: Any) -> None:
    while True:
        time.sleep(0.01)


def test_a_call_that_does_not_return_is_ended() -> None:
    task = bounded(lambda x: hang() if x.numel() else x).task
    assert task.reference(torch.zeros(0)).numel() == 0  # the first may take longer
    begun_s = time.monotonic()
    with pytest.raises(OverLimit, match=r"does not return within 0 s \(called with float32\[2, 3\]\)") as over:
        task.reference(torch.zeros(2, 3))
    assert 0.05 < time.monotonic() - begun_s < 5
    assert over.value.charge.refusal is Refusal.SLOW_REFERENCE


def test_inputs_that_nobody_makes_are_ended() -> None:
    task = BoundedTask(Task("some", "function", ("x",), hang, hang, Entry(("f",)), {"a": hang}), LIMITS).task
    for make in (task.inputs, task.posed["a"]):
        with pytest.raises(OverLimit, match="what makes its inputs does not return"):
            make(0)


def test_all_calls_together_have_a_limit() -> None:
    one = bounded(lambda x: time.sleep(0.06), replace(LIMITS, call_s=30.0, first_s=30.0))
    with pytest.raises(OverLimit, match="that all its calls may"):
        for _ in range(20):
            one.task.reference(torch.zeros(3))
    one.forget_total()
    one.task.reference(torch.zeros(3))


def test_a_limit_around_a_call_is_not_the_calls() -> None:
    task = bounded(hang, TaskLimits(30.0, 30.0, 30.0, 1 << 30)).task
    with pytest.raises(OutOfTime), time_limit(0.1):
        task.reference(torch.zeros(3))


def test_what_has_ended_too_late_is_refused() -> None:
    """As a call of C++ does, which no signal interrupts."""

    def late(x: Tensor) -> Tensor:
        until_s = time.monotonic() + 0.3
        while time.monotonic() < until_s:
            try:
                time.sleep(0.3)
            except OutOfTime:
                continue
        return x

    with pytest.raises(OverLimit):
        bounded(late).task.reference(torch.zeros(3))


def of_task(folder: Path, reference: Callable[..., Any], **options: Any) -> Judgement:
    """Judge a right candidate for a function of one matrix."""
    path = folder / "candidate.py"
    path.write_text("import torch\ndef custom_kernel(x): return torch.relu(x)\n")
    usual = {
        "examples": [(torch.linspace(-2, 2, 640).reshape(20, 32),)],
        "threads": 1,
        "time": False,
        "operator": False,
    }
    return judge(reference, path, **{**usual, "call_seconds": 2.0, "load_seconds": 6.0, "memory_gib": 2.0, **options})


def test_a_reference_that_hangs_refuses_the_task(tmp_path: Path) -> None:
    def reference(x: Tensor) -> Tensor:
        if x.shape[0] == 20:
            hang()
        return torch.relu(x)

    begun_s = time.monotonic()
    judgement = of_task(tmp_path, reference, load_seconds=2.0, operator=True)
    assert time.monotonic() - begun_s < 30
    assert [charge.refusal for charge in judgement.task_charges] == [Refusal.SLOW_REFERENCE]
    assert judgement.as_posed.state == "not judged"
    assert judgement.as_operator == judgement.as_posed
    assert not judgement.ok


@pytest.mark.slow("judges a candidate as an operator")
def test_a_reference_that_hangs_at_another_size_leaves_the_operator_unjudged(tmp_path: Path) -> None:
    def reference(x: Tensor) -> Tensor:
        if x.shape[0] > 40:
            hang()
        return torch.relu(x)

    judgement = of_task(tmp_path, reference, operator=True)
    assert judgement.as_posed.state == "accepted"
    assert judgement.as_operator.state == "not judged"
    assert "does not return within 2 s (called with float" in judgement.as_operator.note
    assert judgement.task_charges == ()
    assert judgement.ok


class _HangsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.relu(x)

    @staticmethod
    def backward(ctx: Any, arriving: Tensor) -> Any:
        hang()


@pytest.mark.slow("waits for a gradient")
def test_a_gradient_that_hangs_ends_the_verdict_as_an_operator(tmp_path: Path) -> None:
    def inputs(seed: int) -> dict[str, Tensor]:
        return {"x": torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))}

    entry = Entry(("custom_kernel",), parameters=("x",))
    task = Task("some", "function", ("x",), _HangsBackward.apply, inputs, entry, trains=True, differentiable=("x",))
    path = tmp_path / "candidate.py"
    path.write_text("import torch\ndef custom_kernel(x): return torch.relu(x)\n")
    begun_s = time.monotonic()
    judgement = judge(task, path, seconds=4.0, call_seconds=3.0, time=False, threads=1)
    assert time.monotonic() - begun_s < 40
    assert judgement.ok
    assert judgement.as_operator.state == "not judged"
    assert "it was stopped after" in judgement.as_operator.note


def test_a_task_that_is_not_read_is_refused(tmp_path: Path) -> None:
    task = tmp_path / "waits.py"
    task.write_text(
        "import time, torch\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        time.sleep(60)\n"
        "        return x\n"
        "def get_inputs(): return [torch.randn(4, 8)]\n"
    )
    (tmp_path / "candidate.py").write_text("import torch\nModelNew = torch.nn.ReLU\n")
    judgement = judge(task, tmp_path / "candidate.py", load_seconds=1.0)
    assert judgement.task == "waits"
    (charge,) = judgement.task_charges
    assert charge.refusal is Refusal.SLOW_REFERENCE
    assert charge.message.startswith("it is not read within 1 s")


@pytest.mark.parametrize(
    ("wrong", "refusal", "message"),
    [
        (lambda x: torch.ones(1 << 33) + x[0, 0], Refusal.LARGE_TASK, "not enough memory for its own inputs"),
        (lambda x: x @ x, Refusal.DEGENERATE_TASK, "raises RuntimeError on its own inputs"),
    ],
)
def test_a_reference_that_raises_is_a_verdict_on_the_task(
    wrong: Callable[..., Any], refusal: Refusal, message: str, tmp_path: Path
) -> None:
    if torch.cuda.is_available():
        pytest.skip("the memory of a process with a GPU is not limited")
    judgement = of_task(tmp_path, wrong)
    (charge,) = judgement.task_charges
    assert charge.refusal is refusal
    assert message in charge.message
    assert judgement.as_posed.state == "not judged"


def test_a_usual_reference_is_not_refused(tmp_path: Path) -> None:
    assert judged(tmp_path, RIGHT).ok


def test_inputs_that_are_not_made_for_some_seed_refuse_the_task(tmp_path: Path) -> None:
    problem, candidate = tmp_path / "problem.py", tmp_path / "candidate.py"
    problem.write_text("""
import torch
count = 0
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    global count
    count += 1
    if count > 6:
        raise ValueError("no more numbers")
    return [torch.randn(8, 16)]
def get_init_inputs():
    return []
""")
    candidate.write_text("from torch.nn import ReLU as ModelNew\n")
    judgement = judge(problem, candidate, threads=1, time=False, operator=False)
    assert [charge.refusal for charge in judgement.task_charges] == [Refusal.DEGENERATE_TASK]
    assert "no more numbers" in judgement.task_charges[0].message
    assert not judgement.ok
