"""Children of a process that has used autograd beside a GPU cannot differentiate: gradients are checked in the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import ClassVar

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.checker.process import forks
from opsmith.checker.process.forks import Forks
from opsmith.checker.properties.table import PROPERTIES, chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.errors import ArgumentError
from opsmith.subject.subject import subject_of


def tripled(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 3


class Tripled(torch.autograd.Function):
    """A function whose backward tells where it runs."""

    processes: ClassVar[set[int]] = set()

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        Tripled.processes.add(os.getpid())
        return gradients[0] * 3


def tripled_by_function(x: Tensor) -> Tensor:
    return Tripled.apply(x)


def crashing(x: Tensor) -> Tensor:
    signal.raise_signal(signal.SIGSEGV)
    return x


@pytest.mark.parametrize("is_able", [True, False])
def test_gradients_are_checked_where_autograd_works(is_able: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_able and not Forks.of_this_process(PROPERTIES).can_differentiate:
        pytest.skip("another test has used autograd in this process, beside a GPU")
    if not is_able:
        monkeypatch.setattr(forks, "_can_differentiate", lambda: False)
    Tripled.processes.clear()
    subject = subject_of(Tripled.apply, reference=tripled, devices=("cpu",))
    report = run_check(subject, CheckPlan(chosen(("value", "gradient")), ("float64",)))
    assert report.ok
    assert (os.getpid() in Tripled.processes) != is_able
    assert any("autograd has been used in this process" in note for note in report.notes) != is_able


def test_without_a_gpu_children_can_differentiate_whatever_came_before() -> None:
    torch.ones((), requires_grad=True).backward()
    assert Forks.of_this_process(PROPERTIES).can_differentiate or torch.cuda.is_available()


def test_an_operator_that_can_be_imported_is_checked_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_can_differentiate", lambda: False)
    Tripled.processes.clear()
    options = {"devices": "cpu", "dtypes": "float64", "properties": ("value", "gradient")}
    report = opsmith.check(tripled_by_function, reference=tripled, **options)
    assert report.ok
    assert [result.outcome.state for result in report.results] == ["passed", "passed"]
    assert not Tripled.processes and not report.notes
    with pytest.raises(ArgumentError, match="unknown"):
        opsmith.check(tripled_by_function, reference=tripled, devices="cpu", properties="unknown")
    # What no module has by name is checked here.
    own = opsmith.check(Tripled.apply, reference=tripled, **options)
    assert own.ok and Tripled.processes == {os.getpid()} and own.notes


@pytest.mark.slow("a check in a new process; make test has one that is right")
def test_a_crash_in_a_new_process_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_can_differentiate", lambda: False)
    report = opsmith.check(crashing, reference=tripled, devices="cpu", dtypes="float64", properties=("value", "vmap"))
    assert report.failed == ("value",)
    assert "a segmentation fault" in report.findings[0].message


@pytest.mark.gpu
def test_beside_a_gpu_a_check_after_a_backward_on_the_cpu_is_right() -> None:
    program = (
        "import torch, opsmith; from opsmith.ops.add2 import add2\n"
        "torch.ones((), requires_grad=True).backward()\n"
        "report = opsmith.check(add2, devices=('cpu',), dtypes=('float32',), seconds=10)\n"
        "assert any(r.name == 'gradient' and r.outcome.state == 'passed' for r in report.results), str(report)\n"
        "report.raise_if_failed()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
