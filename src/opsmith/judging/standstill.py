"""Stops a candidate's processes for a while, and reads their memory as it is then.

While they stand still nothing is computed there: inputs can be written that nobody has seen when the clock starts, results
are there at the end of a call or they are not, and other work is not disturbed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from opsmith.judging.processes import cpu_s, family

__all__ = ["OtherMemory", "Standstill"]

# A thread in the middle of a system call stops when that has ended.
_PATIENCE_S = 2.0
_STOPPED = frozenset("TtZX")
# What a process may be seen to have used of processors between, which was counted late.
_COUNTED_LATE_S = 1e-4
# One that waits for a child it shares memory with (vfork) does so until the child goes on.
_WAITING, _WAITS_S = frozenset("D"), 0.1
# What lies between the elements of a result that is not dense is read as well, up to so many times their bytes.
_MOST_SPREAD, _SPREAD_BYTES = 16, 256 << 20


class Standstill:
    """A process and its descendants, which can be stopped and go on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._members: list[int] = [pid]
        self._used_s = 0.0
        self.is_on = False

    def begin(self) -> bool:
        """Stop all of them, and return whether they have stopped."""
        self.is_on = True
        begun_s = time.monotonic()
        # Those that are known at once: looking for others takes as long as a short call.
        running: Iterable[int] = self._members
        while True:
            for one in running:
                _signal(one, signal.SIGSTOP)
            self._members = family(self._pid)
            taken_s = time.monotonic() - begun_s
            still = _STOPPED if taken_s < _WAITS_S else _STOPPED | _WAITING
            running = [one for one in self._members if not _is_in(one, still)]
            if not running:
                self._used_s = self._settled_s(begun_s + _PATIENCE_S)
                return True
            if taken_s > _PATIENCE_S:
                return False

    def _settled_s(self, until_s: float) -> float:
        """Return the seconds of processors that they have used, when that number does not change any more.

        A thread counts as stopped a moment before its processor is another's, and a virtual one may be taken from the
        machine in that moment, for milliseconds.
        """
        used_s = cpu_s(self._members)
        while (now_s := cpu_s(self._members)) != used_s and time.monotonic() < until_s:
            used_s = now_s
            time.sleep(0)
        return now_s

    def has_held(self) -> bool:
        """Whether nothing has run since `begin`: a timer, for one, can send the signal that lets a process go on."""
        return not self.is_on or cpu_s(self._members) - self._used_s < _COUNTED_LATE_S

    def end(self) -> None:
        """Let all of them go on."""
        if self.is_on:
            self.is_on = False
            for one in self._members:
                _signal(one, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _is_in(pid: int, states: Collection[str]) -> bool:
    """Whether each of a process's threads is in one of some states."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, IndexError):
                # The name, in parentheses, may have anything in it; behind it is the state.
                if (task / "stat").read_text().rpartition(")")[2].split()[0] not in states:
                    return False
    return True


class OtherMemory:
    """The memory of another process, for reading; raises OSError where this machine does not allow that.

    It is opened before there is a candidate in it, and what that does does not close it.
    """

    def __init__(self, pid: int) -> None:
        self._descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Read no more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def tensor(self, address: int, strides: Sequence[int] | None, like: Tensor) -> Tensor:
        """Return what lies at an address as a tensor of the shape and type of another one; it is dense without strides.

        Raises ValueError for strides that it cannot have, and OSError where there is no memory.
        """
        if not like.numel():
            return torch.empty(like.shape, dtype=like.dtype)
        if strides is None:
            return self._elements(address, like.numel(), like.dtype).reshape(like.shape)
        if len(strides) != like.dim() or any(stride < 0 for stride in strides):
            raise ValueError("strides that a tensor of its shape does not have")
        span = 1 + sum((size - 1) * stride for size, stride in zip(like.shape, strides, strict=True))
        if span * like.element_size() > max(_SPREAD_BYTES, _MOST_SPREAD * like.numel() * like.element_size()):
            raise ValueError("elements that lie far apart")
        return self._elements(address, span, like.dtype).as_strided(like.shape, strides).contiguous()

    def _elements(self, address: int, count: int, dtype: torch.dtype) -> Tensor:
        content = bytearray(count * dtype.itemsize)
        rest = memoryview(content)
        try:
            while rest:
                read = os.preadv(self._descriptor, [rest], address)
                if read <= 0:
                    raise OSError(0, "memory that is not there")
                rest, address = rest[read:], address + read
        except OverflowError as error:
            raise ValueError("an address that is not one") from error
        return torch.frombuffer(content, dtype=dtype)
