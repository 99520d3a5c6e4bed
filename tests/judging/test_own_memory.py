"""A call writes what it returns, where the reference does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from opsmith.judging.api import judge
from opsmith.judging.memory import overlaps_itself
from opsmith.judging.own_memory import Views, views_in
from opsmith.judging.refusals import Refusal

_LAYOUTS = {
    "dense": (torch.zeros(3, 4), False),
    "transposed": (torch.zeros(3, 4).t(), False),
    "every other": (torch.zeros(3, 8)[:, ::2], False),
    "a channel": (torch.zeros(2, 3, 4, 4)[:, 1:2], False),
    "channels last": (torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last), False),
    "one element, expanded": (torch.zeros(1).expand(1, 1), False),
    "nothing, expanded": (torch.zeros(1, 1).expand(0, 4), False),
    "expanded": (torch.zeros(3, 1).expand(3, 4), True),
    "expanded, far apart": (torch.zeros(2, 1000)[:, :4].unsqueeze(1).expand(2, 3, 4), True),
    "windows": (torch.zeros(16).unfold(0, 4, 1), True),
    "windows, far apart": (torch.zeros(2, 1000)[:, :16].unfold(1, 4, 1), True),
    "windows side by side": (torch.zeros(16).unfold(0, 4, 4), False),
}


@pytest.mark.parametrize("name", _LAYOUTS)
def test_elements_that_share_memory_are_seen_in_strides(name: str) -> None:
    tensor, expected = _LAYOUTS[name]
    assert overlaps_itself(tensor.shape, tensor.stride()) is expected


def test_views_among_results_are_found() -> None:
    x, y = torch.zeros(3, 4), torch.zeros(3, 1)
    results = [x + 1, x[1:], y.expand(3, 4), (y + 1).expand(3, 4)]
    assert views_in(results, [x, 2, [y]]) == Views(frozenset({1, 2}), frozenset({2, 3}))


def turned(x: Tensor) -> Tensor:
    return x.mT.contiguous()


def turned_view(x: Tensor) -> Tensor:
    return x.mT


_COPY = "def {name}(x):\n    return x.mT.clone()\n"
_VIEW = "def {name}(x):\n    return x.mT\n"
# What begins elsewhere, of a storage of its own.
_ELSEWHERE = """
import ctypes, torch
def {name}(x):
    floats = (ctypes.c_float * x.numel()).from_address(x.data_ptr())
    return torch.frombuffer(floats, dtype=x.dtype).view(x.shape).mT
"""
_SILENT = "from opsmith.judging.inside.calls import Calls\nCalls._shared_argument = lambda *_: []\n"


@pytest.mark.parametrize(
    ("task", "text", "is_time", "refused"),
    [
        (turned, _COPY, True, False),
        (turned, _VIEW, False, True),
        (turned, _ELSEWHERE, False, True),
        (turned, _SILENT + _VIEW, False, True),
        (turned_view, _VIEW, True, False),
        (turned_view, _COPY, False, False),
    ],
)
def test_a_view_is_refused_where_the_reference_writes(
    task: object, text: str, is_time: bool, refused: bool, tmp_path: Path
) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(text.format(name=task.__name__))  # type: ignore[attr-defined]
    examples = [(torch.randn(6, 8, 10),)]
    judgement = judge(task, path, examples=examples, threads=1, operator=False, time=is_time, seconds=10.0)
    assert judgement.as_posed.state == ("refused" if refused else "accepted"), judgement
    assert [one.refusal for one in judgement.as_posed.charges] == [Refusal.ALIASED_RESULT] * refused
    assert bool(judgement.speeds) is is_time
