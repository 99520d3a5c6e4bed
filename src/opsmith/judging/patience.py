"""Waits for an answer that may never come, or come byte by byte."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Any

__all__ = ["OverTotal", "Patient"]

_TICK_S = 0.1
_REST_S = 1.0


class OverTotal(BaseException):
    """All calls together take more than they may. No Exception, so that nothing on the way takes it for one of a call."""


class Patient:
    """The reader's end of a link, which raises TimeoutError when an answer does not come in time, or not to its end.

    `look` is called ten times a second while nothing arrives, and while what arrives takes long: it may raise what it likes.
    """

    def __init__(self, link: socket.socket, patience_s: float, look: Callable[[], None]) -> None:
        self._link, self._patience_s, self._look = link, patience_s, look
        self._has_begun, self._looked_s = False, time.monotonic()
        self._until_s = self._looked_s + patience_s
        self._arrived = select.poll()  # takes descriptors of any number
        self._arrived.register(link, select.POLLIN)

    def recv(self, most: int, /) -> bytes:
        """As of the link, when there is something."""
        self._wait()
        return self._link.recv(most)

    def recvmsg(self, most: int, room: int, /) -> tuple[bytes, list[tuple[int, int, bytes]], int, Any]:
        """As of the link, when there is something."""
        self._wait()
        return self._link.recvmsg(most, room)

    def _wait(self) -> None:
        while True:
            has_arrived, now_s = bool(self._arrived.poll(1000 * _TICK_S)), time.monotonic()
            if has_arrived and not self._has_begun:
                # It may have been there for long, where this process had no processor. The rest of it follows at once.
                self._has_begun, self._until_s = True, max(self._until_s, now_s + _REST_S)
                return
            if now_s > self._until_s:
                raise TimeoutError(f"no answer within {self._patience_s:.0f} s")
            if not has_arrived or now_s > self._looked_s + _REST_S:
                self._looked_s = now_s
                self._look()
            if has_arrived:
                return
