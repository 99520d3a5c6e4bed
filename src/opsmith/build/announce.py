"""Reports the progress of a build: one line while it runs, and nothing without a terminal or log."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from opsmith import _env
from opsmith._printable import printable
from opsmith._streams import write_line
from opsmith.build.progress import State
from opsmith.build.screens import Screen, choose_screen
from opsmith.build.watcher import Progress, Watcher

if TYPE_CHECKING:
    from opsmith.build.plan import Plan
    from opsmith.store import Artifact

__all__ = ["announcer", "notice_build", "step_lines"]


def announcer(title: str, stream: TextIO | None = None, *, verbose: bool = False, jobs: int | None = None) -> Watcher:
    """Return a watcher that shows `opsmith  building <title>  [1/3]  lltm.cpp, binding.cpp  0.9s` while a build runs.

    On a terminal that is one line which renews itself, and in a notebook one output. Elsewhere only the logger "opsmith"
    is reported, at level INFO, and a wait for another process that becomes long is a warning. What is found in the store is
    not mentioned. OPSMITH_QUIET silences all of it; `verbose`, as OPSMITH_VERBOSE, shows every command, its output, each
    finished step, and whether the store had the library. `jobs` is how many compilers run at once.
    """
    if verbose or _env.read("OPSMITH_VERBOSE") is not None:
        return step_lines(title, stream or sys.stderr, commands=True)
    if _env.read("OPSMITH_QUIET") is not None:
        return Watcher()
    return _Announcer(title, choose_screen(stream), jobs).watcher


def notice_build(watcher: Watcher) -> tuple[Watcher, Callable[[], bool]]:
    """Return a watcher that also remembers whether a build has ended well, and the function that tells it."""
    ended: list[Plan] = []

    def end(plan: Plan, seconds: float) -> None:
        ended.append(plan)
        if watcher.on_end is not None:
            watcher.on_end(plan, seconds)

    return replace(watcher, on_end=end), lambda: bool(ended)


def step_lines(title: str, stream: TextIO | None, *, commands: bool = False) -> Watcher:
    """Return a watcher that writes a line for each finished step and for the end, as logs and `pip install -v` have it.

    With `commands` every command line and all that compilers print go before it.
    """

    title = printable(title)

    def write(text: str) -> None:
        write_line(stream, text)

    def start(plan: Plan) -> None:
        for step in plan.steps if commands else ():
            write(shlex.join(step.argv))

    def progress(progress: Progress) -> None:
        write(
            f"opsmith  {title}  [{progress.done}/{progress.total}]  {printable(progress.step)}  {progress.seconds:.1f}s"
        )

    return Watcher(
        start,
        progress,
        write if commands else None,
        lambda seconds: (
            write(f"opsmith  waiting for {title}: another process is building it") if seconds == 0 else None
        ),
        lambda plan, seconds: write(f"opsmith  built {title} in {seconds:.1f}s"),
        lambda plan, seconds: write(f"opsmith  {title} failed after {seconds:.1f}s"),
        lambda artifact: write(f"opsmith  {title} comes from the store: {artifact.library}"),
    )


class _Announcer:
    """Keeps the state of one build and has a screen show it."""

    def __init__(self, title: str, screen: Screen, jobs: int | None) -> None:
        self._state = State(title, jobs or 1)
        self._jobs = jobs
        self._screen = screen
        self.watcher = Watcher(
            self._start, self._progress, None, self._wait, self._end, self._fail, self._found, self._lock
        )

    def _start(self, plan: Plan) -> None:
        from opsmith.build.jobs import choose_jobs

        self._state.jobs = choose_jobs(plan, self._jobs)
        self._state.start(plan)
        self._screen.show(self._state.line)

    def _progress(self, progress: Progress) -> None:
        self._state.finished.append(progress.step)
        self._screen.show(self._state.line)

    def _lock(self, lock: Path) -> None:
        self._state.lock = lock

    def _wait(self, seconds: float) -> None:
        self._state.wait(seconds)
        self._screen.show(self._state.line, waited_s=seconds)

    def _end(self, plan: Plan, seconds: float) -> None:
        self._screen.say(f"built {self._state.title} in {seconds:.1f}s")

    def _fail(self, plan: Plan, seconds: float) -> None:
        self._screen.say(f"{self._state.title} failed after {seconds:.1f}s")

    def _found(self, artifact: Artifact) -> None:
        # Reported only after a wait; a library that is simply there is expected.
        if self._state.waited_s is not None:
            self._screen.say(f"{self._state.title} was built by {self._state.other}, after {self._state.seconds:.1f}s")
