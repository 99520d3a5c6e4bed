"""Sends messages through a pipe to another process, each with its length before it."""

from __future__ import annotations

import struct
from typing import IO

__all__ = ["read_frame", "write_frame"]

_LENGTH = struct.Struct("<q")


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
