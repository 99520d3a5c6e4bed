"""An honest kernel for one shape is accepted as posed and refused as an operator, by what it lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from judging_kit.candidates import EXAMPLES, RIGHT, judged
from torch import Tensor

from opsmith.judging.api import judge
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement
from opsmith.judging.task_files import load_task

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
