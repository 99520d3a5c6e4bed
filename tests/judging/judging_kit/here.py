"""Stands in for a candidate's process on a GPU: what the judge asks is done here, in memory of the CPU."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from opsmith.judging.areas import Areas
from opsmith.judging.cell import Cell
from opsmith.judging.gpu_area import Passage
from opsmith.judging.inside.calls import Calls
from opsmith.judging.inside.devices import Cpu
from opsmith.judging.inside.main import _described
from opsmith.judging.inside.mirror import Mirror
from opsmith.judging.inside.staging import Staged
from opsmith.judging.memory import Area
from opsmith.judging.result import Walls

__all__ = ["Here", "staged_cell"]


class _WithMirror(Cpu):
    """The CPU as a device whose inputs lie in memory of its own, as a GPU's do."""

    def __init__(self) -> None:
        self._held = Mirror("cpu")

    @property
    def held(self) -> Mirror:  # type: ignore[override]
        return self._held

    def place(self, size: int, keep: bool, leave: bool) -> None:
        self._held.place(size, keep=keep, leave=leave)


class Here:
    """A process that is asked in this one; `asked` has the names of what it was asked, `opened` the memory that it mapped.

    `after` is called when it has done something: what a kernel that goes on would do then.
    """

    memory = None
    is_alive = True
    walls = Walls()

    def __init__(self, function: Callable[[Sequence[Any]], Any]) -> None:
        self.shared_bytes = self.copied_bytes = self.staged_bytes = self.passage_bytes = 0
        self.shared_files: set[tuple[int, int]] = set()
        self.asked: list[str] = []
        self.opened: list[Area] = []
        self.after: Callable[[str], None] = lambda do: None
        self.calls = Calls("cpu", 0)
        self.calls.device = _WithMirror()
        self.calls.function = function
        self.staged = Staged(self.calls, self._open)

    def _open(self, size: int, descriptor: int) -> Passage:
        self.opened.append(Area(size, descriptor))
        return self.opened[-1]

    def ask(self, do: str, patience_s: float, descriptors: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
        self.asked.append(do)
        answer = self.staged.answers.get(do) or getattr(self.calls, do)
        try:
            found = answer(*map(os.dup, descriptors), **json.loads(json.dumps(more)))
        except Exception as error:
            found = _described(error)
        self.after(do)
        return json.loads(json.dumps(found))  # type: ignore[no-any-return]

    def wait_until_ready(self) -> None:
        """It is."""

    def close(self) -> None:
        for area in [*self.opened, *self.calls.areas.values()]:
            area.close()


def staged_cell(
    function: Callable[[Sequence[Any]], Any], new_passage: Callable[[], Passage | None]
) -> tuple[Cell, Here]:
    """Return a cell whose tensors go through memory that `new_passage` makes, and its process."""
    process = Here(function)
    cell = Cell(None, "cpu", process=process)  # type: ignore[arg-type]
    cell._areas = Areas(process, 5.0, new_passage)  # type: ignore[arg-type]
    return cell, process
