"""Results are read where they lie, however far apart their elements are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from judging_kit.candidates import RIGHT, judged
from torch import Tensor

from opsmith.judging.other_memory import OtherMemory, SpreadError


@pytest.fixture
def memory() -> Iterator[OtherMemory]:
    try:
        own = OtherMemory(os.getpid())
    except OSError as error:
        pytest.skip(f"this machine does not let memory be read: {error.strerror}")
    yield own
    own.close()


_LAYOUTS = {
    "a column": lambda x: x[:, :, -1],
    "a row of columns": lambda x: x[:, 2],
    "transposed": lambda x: x.transpose(0, 2),
    "some of each": lambda x: x[::2, ::3, ::2].permute(2, 0, 1),
    "expanded": lambda x: x[:, :1, ::4].expand(-1, 5, -1),
    "one element": lambda x: x[1, 2, 3],
    "dense": lambda x: x[1:3],
}


@pytest.mark.parametrize("name", _LAYOUTS)
@pytest.mark.parametrize("spread_bytes", [0, 64, 1 << 20], ids=str)
def test_the_elements_of_a_result_are_read_in_pieces(
    name: str, spread_bytes: int, memory: OtherMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opsmith.judging.other_memory._SPREAD_BYTES", spread_bytes)
    monkeypatch.setattr("opsmith.judging.other_memory._MOST_SPREAD", 1)
    result: Tensor = _LAYOUTS[name](torch.randn(4, 6, 8))
    assert torch.equal(memory.tensor(result.data_ptr(), result.stride(), result), result)


def test_too_many_pieces_are_not_read(memory: OtherMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsmith.judging.other_memory._SPREAD_BYTES", 0)
    monkeypatch.setattr("opsmith.judging.other_memory._MOST_PIECES", 4)
    result = torch.randn(5, 64)[:, 0]
    with pytest.raises(SpreadError, match="too far apart"):
        memory.tensor(result.data_ptr(), result.stride(), result)
    assert torch.equal(memory.tensor(result[:4].data_ptr(), result.stride(), result[:4]), result[:4])


@pytest.mark.parametrize("strides", [[1], [-1, 1], [1, 2, 3]], ids=str)
def test_strides_of_another_shape_are_refused(strides: list[int], memory: OtherMemory) -> None:
    like = torch.randn(2, 3)
    with pytest.raises(ValueError, match="strides that a tensor"):
        memory.tensor(like.data_ptr(), strides, like)


def test_a_result_that_is_not_read_has_no_time_and_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: OtherMemory
) -> None:
    monkeypatch.setattr("opsmith.judging.other_memory._SPREAD_BYTES", 0)
    monkeypatch.setattr("opsmith.judging.other_memory._MOST_PIECES", 1)
    spread = RIGHT.replace("return torch", "return torch.empty(*x.shape, 64)[..., 0].copy_(torch") + "    )\n"
    judgement = judged(tmp_path, spread.replace("dim=-1)\n", "dim=-1)", 1), time=True, seconds=10.0)
    assert judgement.ok, judgement
    assert not judgement.speeds
    assert any("too far apart" in note for note in judgement.notes)
