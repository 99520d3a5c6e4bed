"""An honest kernel for one shape is accepted as posed and refused as an operator, by what it lacks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Float
from judging_kit.candidates import EXAMPLES, RIGHT, judged, normalize
from torch import Tensor

from opsmith.checker.outcome import not_run_for, passed
from opsmith.checker.properties.table import chosen
from opsmith.judging import as_operator
from opsmith.judging.api import judge
from opsmith.judging.cell import CellError
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Judgement
from opsmith.judging.task_files import load_task
from opsmith.judging.trial import Trial
from opsmith.subject.examples import as_case
from opsmith.subject.subject import Subject

CLONED = RIGHT.replace("x * w", "x.contiguous() * w")


def trained(folder: Path, text: str) -> Judgement:
    """Judge a candidate as an operator, for a task that trains."""

    def normalize(x: Float[Tensor, "B N"], w: Float[Tensor, "N"]) -> Float[Tensor, "B N"]:
        return torch.softmax(x * w, dim=-1)

    path = folder / "candidate.py"
    path.write_text(text)
    task = replace(load_task(normalize, examples=EXAMPLES), trains=True)
    return judge(task, path, threads=1, time=False, seconds=12.0)


@pytest.mark.slow("asks all properties")
def test_a_right_operator_is_accepted(tmp_path: Path) -> None:
    part = trained(tmp_path, CLONED).as_operator
    assert part.charges == ()
    assert part.state == "accepted"
    assert part.properties["gradient"] == "right"
    assert part.properties["sizes"] == "right"


@pytest.mark.slow("asks all properties")
def test_one_shape_alone_is_told(tmp_path: Path) -> None:
    text = CLONED.replace("    return", "    assert x.shape == (32, 64)\n    return")
    judgement = trained(tmp_path, text)
    assert judgement.ok
    assert judgement.as_operator.charges[0].refusal is Refusal.WRONG_AT_OTHER_SIZES


@pytest.mark.slow("asks all properties")
def test_ignored_strides_are_told(tmp_path: Path) -> None:
    text = RIGHT.replace("    return", "    x = torch.as_strided(x, x.shape, (x.shape[1], 1))\n    return")
    judgement = trained(tmp_path, text)
    assert judgement.ok
    assert Refusal.WRONG_FOR_OTHER_LAYOUTS in judgement.refusals


def test_a_graph_that_is_cut_is_told(tmp_path: Path) -> None:
    judgement = trained(tmp_path, CLONED.rstrip() + ".detach()\n")
    assert judgement.ok
    assert set(judgement.refusals) == {Refusal.WRONG_GRADIENT}


@pytest.mark.slow("asks all properties")
def test_a_result_that_does_not_depend_on_every_input_keeps_its_graph(tmp_path: Path) -> None:
    def shifted(x: Float[Tensor, "B N"], w: Float[Tensor, "N"]) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N"]]:
        return x * w, x + 1

    text = "def shifted(x, w):\n    return x * w, x + 1\n"
    path = tmp_path / "candidate.py"
    for cut in ("", ".detach()"):
        path.write_text(text.replace("x + 1", f"(x + 1){cut}"))
        task = replace(load_task(shifted, examples=EXAMPLES), trains=True)
        part = judge(task, path, threads=1, time=False, seconds=12.0).as_operator
        assert [charge.refusal for charge in part.charges] == ([Refusal.WRONG_GRADIENT] * len(part.charges))
        assert bool(part.charges) == bool(cut)


@pytest.mark.slow("asks all properties")
@pytest.mark.parametrize(
    "body",
    ["return grad * 1.01", "raise RuntimeError('the backward is not implemented')"],
    ids=["wrong", "refused"],
)
def test_a_wrong_gradient_is_told(body: str, tmp_path: Path) -> None:
    text = """
import torch
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y.clone()
    @staticmethod
    def backward(ctx, grad):
        BODY
def normalize(x, w):
    return Scaled.apply(torch.softmax(x * w, dim=-1))
"""
    judgement = trained(tmp_path, text.replace("BODY", body))
    assert judgement.ok
    assert judgement.refusals == (Refusal.WRONG_GRADIENT,)


@pytest.mark.slow("asks all properties")
def test_a_result_in_the_memory_of_an_input_is_told(tmp_path: Path) -> None:
    text = "import torch\ndef normalize(x, w):\n    return x\n"
    path = tmp_path / "candidate.py"
    path.write_text(text)

    def normalize(x: Tensor, w: Tensor) -> Tensor:
        return x.clone()

    judgement = judge(normalize, path, examples=EXAMPLES, threads=1, time=False, seconds=12.0)
    for part in (judgement.as_posed, judgement.as_operator):
        assert Refusal.ALIASED_RESULT in [charge.refusal for charge in part.charges]


@pytest.mark.slow("asks all properties")
def test_a_crash_at_another_size_is_told(tmp_path: Path) -> None:
    text = CLONED.replace("    return", "    if x.shape[0] == 1: import ctypes; ctypes.string_at(8)\n    return")
    judgement = trained(tmp_path, text)
    assert judgement.ok
    assert judgement.as_operator.charges[0].refusal is Refusal.CRASHED


@pytest.mark.slow("waits for the candidate")
def test_a_candidate_that_leaves_no_time_is_not_judged(tmp_path: Path) -> None:
    wait = "    if x.shape != (32, 64): import time; time.sleep(0.4)\n    return"
    part = trained(tmp_path, CLONED.replace("    return", wait)).as_operator
    assert part.state == "not judged"
    assert part.note.startswith("too slow: ")
    assert "sizes" in part.note
    assert part.properties["sizes"].startswith("cut short: ")


def test_judged_without_an_operator(tmp_path: Path) -> None:
    assert judged(tmp_path, RIGHT).as_operator.state == "not judged"


@pytest.mark.slow("asks all properties")
def test_a_call_that_raises_as_an_operator_leaves_the_verdict_as_posed(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(CLONED)
    task = load_task(normalize, examples=EXAMPLES)
    calls: list[int] = []

    def raises(trial: Trial, seed: int, tell: Any) -> None:
        calls.append(seed)
        raise CellError(Charge(Refusal.RAISED, "ValueError: no more calls"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(as_operator, "charge_for_kinds", raises)
        judgement = judge(task, path, threads=1, time=False, seconds=12.0)
    assert calls
    assert judgement.as_posed.state == "accepted"
    assert judgement.as_operator.state == "refused"
    assert judgement.as_operator.charges[0].refusal is Refusal.RAISED


@pytest.mark.parametrize(
    ("kernel", "is_charged"),
    [
        (lambda call: torch.full((3,), float(call)), True),
        (lambda call: torch.arange(3.0) * (1 + 2**-23 * (call % 2)), False),
        (lambda call: torch.arange(3.0), False),
    ],
    ids=["constants", "last bits", "the same"],
)
def test_calls_that_differ_are_charged_where_one_is_wrong(kernel: Callable[[int], Tensor], is_charged: bool) -> None:
    calls = itertools.count()

    def candidate(x: Tensor) -> tuple[Tensor, ...]:
        return (kernel(next(calls)),)

    def reference(x: Tensor) -> tuple[Tensor, ...]:
        return (x * 1,)

    example = as_case({"x": torch.arange(3.0)}, ("x",))
    subject = Subject(
        "f", candidate, candidate, reference, ("x",), ("cpu",), ({"T": "float32"},), None, examples=(example,)
    )
    charge = as_operator._repeats(subject)
    assert (charge is not None) == is_charged


def test_a_defect_of_the_judge_in_one_property_is_no_verdict() -> None:
    asked = [
        as_operator._Asked(chosen(("value",))[0], "float32", one, 0.0) for one in (passed(3), not_run_for(OSError()))
    ]
    assert as_operator._verdict([], asked[:1], {}, 1).state == "accepted"
    part = as_operator._verdict([], asked, {}, 1)
    assert part.state == "not judged"
    assert "OSError" in part.note
