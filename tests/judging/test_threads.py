"""The judge works on one thread while nothing is timed and tensors are small; a candidate has all that were asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from judging_kit.candidates import EXAMPLES
from judging_kit.cells import cell_of
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


@pytest.mark.parametrize("threads", [1, 0.2])
def test_what_more_threads_do_beside_each_other_is_added_to_the_time(threads: float) -> None:
    """A part of a thread stands for two threads of which one was given, which on a busy machine may have one processor."""
    with cell_of("import torch\ndef f(x):\n    return torch.sin(x)\n", threads=1) as cell:
        if not cell.is_exact:
            pytest.skip("this machine does not let the judge read results where they lie")
        cell.limits = replace(cell.limits, threads=threads)  # type: ignore[arg-type]
        shared = []
        for _ in range(10):
            cell.load([[torch.randn(2000, 1000)]], hidden_from=0)
            done = cell.run([0], is_timed=True)
            shared.append(done.shared_s / done.wall_s)
    assert (max(shared) > 0.2) == (threads < 1), shared


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
