"""Exchanges messages with a candidate's process: JSON with its length before it, and descriptors beside it.

Nothing that comes from there is unpickled or run. What has the wrong form is a MessageError.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from typing import Any, Protocol

__all__ = ["MessageError", "Readable", "receive", "send"]

_LENGTH = struct.Struct("<I")
# A message describes tensors and has no numbers of theirs.
_MOST_BYTES = 16 << 20


class Readable(Protocol):
    """What messages are read from, such as a socket."""

    def recv(self, most: int, /) -> bytes:
        """Return some bytes, none at the end."""

    def recvmsg(self, most: int, room: int, /) -> tuple[bytes, list[tuple[int, int, bytes]], int, Any]:
        """Return some bytes and the descriptors that came with them, as `socket.recvmsg` does."""


class MessageError(Exception):
    """What arrived is not a message."""


def send(link: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Send one message; raises OSError where nobody reads."""
    packed = json.dumps(message, allow_nan=True).encode()
    head = _LENGTH.pack(len(packed))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    link.sendmsg([head], rights)
    link.sendall(packed)


def receive(link: Readable, most_descriptors: int = 0) -> tuple[dict[str, Any], list[int]]:
    """Return one message and the descriptors that came with it; raises EOFError at the end, and MessageError.

    Where more descriptors come than are wanted, Linux closes them: they would fill this process's table.
    """
    room = socket.CMSG_SPACE(most_descriptors * array.array("i").itemsize) if most_descriptors else 0
    head, rights, _, _ = link.recvmsg(_LENGTH.size, room)
    descriptors: list[int] = []
    for level, kind, content in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
            descriptors += numbers
    head += _exactly(link, _LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError("the other side has closed")
    length = _LENGTH.unpack(head)[0]
    if length > _MOST_BYTES:
        raise MessageError(f"a message of {length} bytes")
    try:
        message = json.loads(_exactly(link, length))
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a message that is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise MessageError(f"a message that is a {type(message).__name__}")
    return message, descriptors


def _exactly(link: Readable, length: int) -> bytes:
    parts = []
    while length > 0:
        part = link.recv(min(length, 1 << 20))
        if not part:
            raise EOFError("a message that was cut off")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
