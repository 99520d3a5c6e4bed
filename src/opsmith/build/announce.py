"""How a build shows itself: one calm line while it runs, nothing where nobody looks."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from opsmith import _env
from opsmith.build.artifact import Watcher

if TYPE_CHECKING:
    from opsmith.build.ninja import Progress
    from opsmith.build.plan import Plan

__all__ = ["announcer"]

_TICK_S = 0.1


def announcer(title: str, stream: TextIO | None = None, *, verbose: bool = False) -> Watcher:
    """Return a watcher that writes `opsmith  building <title>  [2/3] 0.9s` to stderr, on one line that it renews.

    It is silent where stderr is no terminal or OPSMITH_QUIET is set. `verbose`, as OPSMITH_VERBOSE, shows every command
    and its output.
    """
    stream = stream or sys.stderr
    verbose = verbose or _env.read("OPSMITH_VERBOSE") is not None
    if _env.read("OPSMITH_QUIET") is not None and not verbose:
        return Watcher()
    line = _Line(title, stream, live=stream.isatty() and not verbose)
    if verbose:
        return Watcher(line.show_commands, None, line.show_output, line.wait, None)
    if not stream.isatty():
        return Watcher()
    return Watcher(line.start, line.progress, None, line.wait, line.end)


class _Line:
    """The one line: a thread renews its clock, because a compiler is silent until it is done."""

    def __init__(self, title: str, stream: TextIO, *, live: bool) -> None:
        self._title, self._stream, self._live = title, stream, live
        self._done, self._total, self._started = 0, 0, 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, plan: Plan) -> None:
        self._total = len(plan.steps)
        self._started = time.perf_counter()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()

    def progress(self, progress: Progress) -> None:
        self._done = progress.done

    def end(self, plan: Plan, seconds: float) -> None:
        self._finish()
        self._write(f"opsmith  built {self._title} in {seconds:.1f}s\n")

    def wait(self, seconds: float) -> None:
        if self._live or seconds == 0.0:
            self._write(f"opsmith  {self._title}: another process is building it, waiting  {seconds:.0f}s ")

    def show_commands(self, plan: Plan) -> None:
        import shlex

        for step in plan.steps:
            self._stream.write(f"{shlex.join(step.argv)}\n")

    def show_output(self, text: str) -> None:
        self._stream.write(f"{text}\n")

    def _finish(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            seconds = time.perf_counter() - self._started
            self._write(f"opsmith  building {self._title}  [{self._done}/{self._total}]  {seconds:.1f}s ")

    def _write(self, text: str) -> None:
        # \r and "erase to the end of the line": the terminal shows one line whatever was there before.
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
