"""How opsmith starts another program: the one gateway, so that encodings and environments are handled once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Completed", "run"]


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
    opsmith reads them. Raises OSError where the program cannot be started and `subprocess.TimeoutExpired` in time-outs.
    """
    words = tuple(str(word) for word in argv)
    finished = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
    return Completed(words, finished.returncode, finished.stdout.decode("utf-8", errors="replace"))
