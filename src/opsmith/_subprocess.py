"""Starts other programs: the one gateway, so that encodings and environments are handled once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Completed", "ask", "run"]


_STREAMS: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
}


@dataclass(frozen=True)
class Completed:
    """What a program left behind: its exit status, and its output as text."""

    argv: tuple[str, ...]
    status: int
    output: str


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Completed:
    """Run a program to its end and return its status with stdout and stderr interleaved.

    `env` is added to the current environment. Compilers are asked for untranslated messages (LC_ALL=C.UTF-8), because
    opsmith reads them. Raises OSError if the program cannot be started and `subprocess.TimeoutExpired` in time-outs.
    """
    words = tuple(str(word) for word in argv)
    finished = subprocess.run(words, cwd=cwd, env=_environment(env), **_STREAMS, timeout=timeout_s, check=False)
    return Completed(words, finished.returncode, finished.stdout.decode("utf-8", errors="replace"))


def ask(
    argv: Sequence[str | Path], *, timeout_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Completed | str:
    """Run a program that may hang, and all that it starts, for no longer than `timeout_s`.

    Return its result, or a text that says why there is none. A process that the kernel does not release, as the
    tools of a broken GPU driver are, is left alone after the time.
    """
    words = tuple(str(word) for word in argv)
    try:
        process = subprocess.Popen(words, cwd=cwd, env=_environment(env), **_STREAMS, start_new_session=True)
    except OSError as error:
        return f"{words[0]} cannot be started: {error.strerror or error}"
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        assert process.stdout is not None
        process.stdout.close()
        return f"{words[0]} did not finish within {timeout_s:.0f} s"
    return Completed(words, process.returncode, output.decode("utf-8", errors="replace"))


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8", **(more or {})}
