"""Starts a Python process that answers, and exchanges messages with it, each with its length before it."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from typing import IO

__all__ = ["answers_of_this_process", "read_frame", "start_python", "write_frame"]

_LENGTH = struct.Struct("<q")


def start_python(code: str) -> subprocess.Popen[bytes]:
    """Run code in a new Python process that finds the same modules, and has a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )


def answers_of_this_process() -> IO[bytes]:
    """Return where such a process sends its answers; what is printed from then on goes nowhere."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return answers


def write_frame(stream: IO[bytes], message: bytes) -> None:
    """Send one message; raises BrokenPipeError where nobody reads any more."""
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Return one message; raises EOFError where there is none, or only a part of one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError("no answer")
    length = _LENGTH.unpack(head)[0]
    message = stream.read(length)
    if len(message) < length:
        raise EOFError("an answer that was cut off")
    return message
