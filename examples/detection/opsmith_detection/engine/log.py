"""What a run says: a progress line, a file of all values, and TensorBoard where it is installed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Log", "read_log"]

_FILE = "log.jsonl"


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return what was logged in a run's folder: entries with `step` and, each if it was logged then, values by name."""
    path = folder / _FILE
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]  # a process that was killed leaves part of a line


class Log:
    """Writes `log.jsonl` and TensorBoard's files into a folder, and draws a progress line, or prints plain lines.

    Args:
        start: the steps done already. Entries of a former process behind them are dropped.
        leads: whether this process writes anything at all.
    """

    def __init__(self, folder: Path, *, start: int, steps: int, leads: bool = True) -> None:
        self._leads, self._steps, self._step = leads, steps, start
        if not leads:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.entries = [entry for entry in read_log(folder) if entry["step"] <= start]
        (folder / _FILE).write_text("".join(json.dumps(entry) + "\n" for entry in self.entries), encoding="utf-8")
        self._file = (folder / _FILE).open("a", encoding="utf-8")
        self._console = Console(highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(), console=self._console, refresh_per_second=2, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("training", total=steps, completed=start, said="")
        self._board = _tensorboard(folder, start, self._console)
        self._started, self._first = time.monotonic(), start

    def __enter__(self) -> Log:
        if self._leads:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._leads:
            self._progress.stop()
            self._file.close()
            if self._board is not None:
                self._board.close()

    def say(self, text: str) -> None:
        """Print a line above the progress."""
        if self._leads:
            self._console.print(text, markup=False, soft_wrap=True)

    def has(self, step: int, name: str) -> bool:
        """Return whether a value was logged for a step."""
        return self._leads and any(entry["step"] == step and name in entry for entry in self.entries)

    def write(self, step: int, values: Mapping[str, float], said: str | None = None) -> None:
        """Log values after `step` steps; `said` is shown beside the progress."""
        if not self._leads:
            return
        values = {name: value for name, value in values.items() if math.isfinite(value)}  # no AP without objects
        entry = {"step": step, **values}
        self.entries.append(entry)
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name if "/" in name else f"train/{name}", value, step)
        if said is None:
            return
        self._progress.update(self._task, completed=step, said=said)
        if self._progress.disable:
            passed = time.monotonic() - self._started
            left = passed / max(1, step - self._first) * (self._steps - step)
            self._console.print(f"{step:>7}/{self._steps}  {said}  {_clock(left)} left", markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _tensorboard(folder: Path, start: int, console: Console) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        console.print("no TensorBoard: pip install tensorboard shows the curves there, too; they are in log.jsonl")
        return None
    return SummaryWriter(folder, purge_step=start or None)
