"""Opens candidates in processes of their own: what the tests of these share."""

from __future__ import annotations

from pathlib import Path

import torch

from opsmith.judging.candidate import Candidate, Entry
from opsmith.judging.cell import Cell, CellError, Limits

__all__ = ["answer", "cell_of"]

_ENTRY = Entry(("f",), "arguments", ("x",))


def cell_of(text: str, device: str = "cpu", **limits: float) -> Cell:
    """Return a cell with the candidate opened."""
    path = Path("candidate.py")
    cell = Cell(Candidate(path, path.name, {path.name: text.encode()}), device, Limits(**{"call_s": 5.0, **limits}))  # type: ignore[arg-type]
    cell.open(_ENTRY)
    return cell


def answer(cell: Cell, x: torch.Tensor) -> torch.Tensor:
    cell.load([[x]])
    done = cell.run([0])
    if done.error is not None:
        raise CellError(done.error)
    (one,) = cell.give([0])[0]
    assert one is not None
    assert one.tensor is not None
    return one.tensor
