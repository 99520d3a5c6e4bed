"""Runs a plan's steps where there is no ninja: from this process, with the same result and the same output."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from pathlib import Path

from opsmith.build.plan import Plan, Step
from opsmith.build.watcher import Progress

__all__ = ["run_without_ninja"]

# The command that made each output of a build folder; ninja keeps its own list of that.
_MADE = "made.json"


def run_without_ninja(
    plan: Plan,
    folder: Path,
    *,
    jobs: int,
    environment: Mapping[str, str],
    prefix: Sequence[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_output: Callable[[str], None] | None = None,
) -> str | None:
    """Run a plan's steps in a folder and return None, or, where one fails, what ninja would have printed.

    At most `jobs` run at once, each in `environment` and behind the command `prefix`. What another round has made in
    the folder already, by the same commands, is not made again.
    """
    _say_once()
    made = _read_made(folder)
    todo: list[Step] = []
    missing: set[str] = set()
    for step in plan.steps:
        is_made = made.get(step.output) == list(step.argv) and (folder / step.output).exists()
        if not is_made or not missing.isdisjoint(step.inputs):
            todo.append(step)
            missing.add(step.output)
    total, started_s = len(todo), time.perf_counter()
    commands = _Commands(folder, environment, tuple(prefix))
    running: dict[Future[tuple[int, list[str]]], Step] = {}
    output: list[str] = []
    has_failed = False
    with ThreadPoolExecutor(jobs, thread_name_prefix="opsmith-step") as pool:
        try:
            while True:
                # As in ninja: after a failure nothing is started, and what runs ends.
                free = 0 if has_failed else jobs - len(running)
                ready = [step for step in todo if missing.isdisjoint(step.inputs)][:free]
                todo = [step for step in todo if step not in ready]
                running |= {pool.submit(commands.run, step): step for step in ready}
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    step = running.pop(future)
                    status, lines = future.result()
                    if status == 0:
                        missing.discard(step.output)
                        made[step.output] = list(step.argv)
                    else:
                        has_failed = True
                    if on_output is not None:
                        for line in lines:
                            on_output(line)
                    output += lines
                    if on_progress is not None:
                        done = total - len(todo) - len(running)
                        on_progress(Progress(step.description, done, total, time.perf_counter() - started_s))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            commands.stop()
            raise
        finally:
            (folder / _MADE).write_text(json.dumps(made), encoding="utf-8")
    return "\n".join(output) if has_failed else None


class _Commands:
    """The running commands of one build, which can be stopped all at once."""

    def __init__(self, folder: Path, environment: Mapping[str, str], prefix: tuple[str, ...]) -> None:
        self._folder, self._environment, self._prefix = folder, environment, prefix
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(self, step: Step) -> tuple[int, list[str]]:
        """Run a step and return its exit status and its output, which begins as ninja's does where it fails."""
        (self._folder / step.output).parent.mkdir(parents=True, exist_ok=True)
        try:
            status, text = self._wait_for(step.argv)
        except OSError as error:
            status, text = 1, f"{step.argv[0]}: {error.strerror}"
        failed = [f"FAILED: {step.output}", shlex.join(step.argv)] if status != 0 else []
        if failed:
            # What a killed compiler leaves is not to be taken for its output.
            (self._folder / step.output).unlink(missing_ok=True)
        return status, [*failed, *text.splitlines()]

    def stop(self) -> None:
        """End every command, with the processes that it has started."""
        with self._lock:
            self._is_stopped = True
            for process in self._processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)

    def _wait_for(self, argv: tuple[str, ...]) -> tuple[int, str]:
        with self._lock:  # none is started once all are stopped
            if self._is_stopped:
                return 1, ""
            process = self._start(argv)
            self._processes.add(process)
        with process:
            text = process.communicate()[0]
        with self._lock:
            self._processes.discard(process)
        return process.returncode, text

    def _start(self, argv: tuple[str, ...]) -> subprocess.Popen[str]:
        # In a group of its own: a compiler is a driver and the programs that it starts.
        return subprocess.Popen(
            [*self._prefix, *argv],
            cwd=self._folder,
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )


@cache
def _say_once() -> None:
    logging.getLogger("opsmith").warning(
        "ninja was not found, so opsmith starts the compilers itself. Install it with `pip install ninja`"
    )


def _read_made(folder: Path) -> dict[str, list[str]]:
    try:
        made: dict[str, list[str]] = json.loads((folder / _MADE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return made
