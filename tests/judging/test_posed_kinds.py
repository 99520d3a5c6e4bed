"""A path that only the task's own shape takes is asked for special and extreme numbers, as an operator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.judging.candidate import Candidate
from opsmith.judging.cell import Cell, Limits
from opsmith.judging.posed_kinds import charge_for_kinds
from opsmith.judging.refusals import Refusal
from opsmith.judging.remote import CandidateEnded
from opsmith.judging.task_files import load_task
from opsmith.judging.trial import Trial

# More elements than the calls have that the properties vary.
_EXAMPLE = (torch.linspace(-3, 3, 270 * 256).reshape(270, 256),)
_HEAD = "import torch\n\ndef spread(x):\n    is_posed = x.shape == (270, 256)\n"
WRONG = {
    "NaN is lost": ("return torch.where(x > 0, x, 0 * x.nan_to_num()).softmax(-1) if is_posed else right", "nan"),
    "another number is subtracted": (
        "e = (x.relu() - 40).exp()\n    return e / e.sum(-1, keepdim=True) if x.isfinite().all() else right",
        "steep",
    ),
    "it raises": ("assert not is_posed or x.isfinite().all()\n    return right", "special"),
}
RIGHT = {
    "softmax": "return right",
    "three steps": "e = (x.relu() - x.relu().amax(-1, keepdim=True)).exp()\n    return e / e.sum(-1, keepdim=True)",
    "by its logarithm": "return x.relu().log_softmax(-1).exp()",
}


def spread(x: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    return torch.softmax(x.relu(), dim=-1)


@contextmanager
def trial_of(text: str) -> Iterator[Trial]:
    """Open a candidate with this body, in which `right` is the result."""
    source = f"{_HEAD}    {text}\n".replace("right", "torch.softmax(x.relu(), dim=-1)")
    task, path = load_task(spread, examples=[_EXAMPLE]), Path("candidate.py")
    with Cell(Candidate(path, path.name, {path.name: source.encode()}), "cpu", Limits(call_s=5.0)) as cell:
        cell.open(task.entry)
        yield Trial(task, cell, time.monotonic())


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_wrong_for_a_kind_is_refused(name: str) -> None:
    text, kind = WRONG[name]
    with trial_of(text) as trial:
        charge = charge_for_kinds(trial, 1, lambda case: None)
    assert charge is not None
    assert charge.refusal is Refusal.WRONG_FOR_OTHER_VALUES
    assert kind in charge.where


@pytest.mark.parametrize("name", list(RIGHT))
def test_what_is_right_for_all_kinds_is_not(name: str) -> None:
    told: list[str] = []
    with trial_of(RIGHT[name]) as trial:
        assert charge_for_kinds(trial, 1, lambda case: told.append(case.label)) is None
    layouts = ["every tensor transposed", "every tensor every second"]
    assert told == [*layouts, *(f"{kind} values" for kind in ("special", "nan", "rows", "steep", "huge"))]
    assert trial.calls == 1 + len(told)


def test_strides_that_are_ignored_for_the_posed_shape_alone_are_told() -> None:
    text = "x = torch.as_strided(x, x.shape, (256, 1)) if is_posed else x\n    return right"
    with trial_of(text) as trial:
        charge = charge_for_kinds(trial, 1, lambda case: None)
    assert charge is not None and charge.refusal is Refusal.WRONG_FOR_OTHER_LAYOUTS


def test_what_is_wrong_for_its_own_numbers_is_not_asked() -> None:
    with trial_of("return x") as trial:
        assert charge_for_kinds(trial, 1, lambda case: pytest.fail(case.label)) is None


def test_a_candidate_that_ends_is_told() -> None:
    text = "return right if x.isfinite().all() else __import__('os')._exit(3)"
    with trial_of(text) as trial, pytest.raises(CandidateEnded):
        charge_for_kinds(trial, 1, lambda case: None)
