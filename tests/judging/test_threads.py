"""The judge works on one thread while nothing is timed and tensors are small; a candidate has all that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from judging_kit.candidates import EXAMPLES
from torch import Tensor

from opsmith.judging.api import judge

CANDIDATE = """
import torch
def normalize(x):
    assert torch.get_num_threads() == 2, torch.get_num_threads()
    return torch.softmax(x, -1)
"""


def threads_of(folder: Path, x: Tensor, *, time: bool) -> list[int]:
    """Return on how many threads the reference was called, each time; at first that is before anything is judged."""
    candidate, found = folder / "candidate.py", []
    candidate.write_text(CANDIDATE)

    def normalize(x: Tensor) -> Tensor:
        found.append(torch.get_num_threads())
        return torch.softmax(x, -1)

    judgement = judge(normalize, candidate, examples=[(x,)], threads=2, time=time, operator=False)
    assert judgement.ok, judgement
    return found


def test_small_tensors_are_worked_on_by_one_thread(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    found = threads_of(tmp_path, EXAMPLES[0][0], time=False)
    assert set(found[len(found) // 2 :]) == {1}
    assert torch.get_num_threads() == before


@pytest.mark.slow("times a candidate")
def test_times_are_those_of_the_threads_that_were_asked_for(tmp_path: Path) -> None:
    assert threads_of(tmp_path, EXAMPLES[0][0], time=True)[-1] == 2


def test_large_tensors_have_all_threads(tmp_path: Path) -> None:
    found = threads_of(tmp_path, torch.linspace(-2, 2, 370**2).reshape(370, 370), time=False)
    assert set(found[len(found) // 2 :]) == {2}
