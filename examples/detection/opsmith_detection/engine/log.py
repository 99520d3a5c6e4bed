"""What a run says: a progress line, a file of all values, and TensorBoard where it is installed."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from opsmith_detection.engine.lock import hold_folder

__all__ = ["Log", "read_log"]

_FILE = "log.jsonl"


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return what was logged in a run's folder: entries with `step` and, each if it was logged then, values by name.

    A value that was not a number, such as the average precision without objects, is None.
    """
    path = folder / _FILE
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]  # a process that was killed leaves part of a line


class Log(ExitStack):
    """Writes `log.jsonl` and TensorBoard's files into a folder, and draws a progress line, or prints plain lines.

    Args:
        folder: is made if need be, and held: no other run writes to it meanwhile.
        start: the steps done already. Entries of a former process behind them are dropped.
        leads: whether this process writes anything at all.

    Raises:
        ConfigError: another run holds the folder, or it cannot be written to.
    """

    def __init__(self, folder: Path, *, start: int, steps: int, leads: bool = True) -> None:
        super().__init__()
        self._steps, self._first, self._started = steps, start, time.monotonic()
        self._console = Console(highlight=False, quiet=not leads)
        self._board: Any = None
        self.entries: list[dict[str, Any]] = []
        if leads:
            self.enter_context(hold_folder(folder))
            self.entries = [entry for entry in read_log(folder) if entry["step"] <= start]
            being_written = folder / f".{_FILE}"  # a process that dies meanwhile leaves all entries
            being_written.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries), encoding="utf-8")
            being_written.replace(folder / _FILE)
            self._board = self._tensorboard(folder)
        self._file = self.enter_context((folder / _FILE if leads else Path(os.devnull)).open("a", encoding="utf-8"))
        columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
        is_drawn = leads and self._console.is_terminal
        self._progress = Progress(
            *columns, TimeRemainingColumn(), console=self._console, refresh_per_second=2, disable=not is_drawn
        )
        self._task = self._progress.add_task("", total=steps, completed=start, said="")
        self.enter_context(self._progress)

    def say(self, text: str) -> None:
        """Print a line above the progress."""
        self._console.print(text, markup=False, soft_wrap=True)

    def has(self, step: int, name: str) -> bool:
        """Return whether a value was logged for a step, in the process that leads, be it one that is not a number."""
        return any(entry["step"] == step and name in entry for entry in self.entries)

    def write(self, step: int, values: Mapping[str, float], said: str | None = None) -> None:
        """Log values after `step` steps; `said` is shown beside the progress."""
        # JSON has no NaN.
        entry = {"step": step, **{name: value if math.isfinite(value) else None for name, value in values.items()}}
        self.entries.append(entry)
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if math.isfinite(value):
                    self._board.add_scalar(name if "/" in name else f"train/{name}", value, step)
        if said is None:
            return
        self._progress.update(self._task, completed=step, said=said)
        if self._progress.disable:
            passed = time.monotonic() - self._started
            left = timedelta(seconds=round(passed / max(1, step - self._first) * (self._steps - step)))
            self.say(f"{step:>7}/{self._steps}  {said}  {left} left")

    def _tensorboard(self, folder: Path) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.say("no TensorBoard: pip install tensorboard shows the curves there, too; they are in log.jsonl")
            return None
        # It hides what a former process wrote from this step on.
        return self.enter_context(SummaryWriter(folder, purge_step=self._first + 1))
