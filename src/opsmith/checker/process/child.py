"""Runs work that may crash, hang or spoil the process in a forked child, which reports what it is doing.

A fork has the operator loaded and the tensors' recipes at hand, and costs some ten milliseconds instead of the seconds
that `import torch` takes. All work is done in a new thread of the child: OpenMP gives it threads of its own there,
while those of the parent do not exist in a child, which would wait for them forever.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from opsmith import _env
from opsmith._streams import flush_streams

__all__ = [
    "GPU_FULL",
    "GPU_LOST",
    "Child",
    "Ended",
    "Send",
    "die_with_parent",
    "from_several",
    "in_child",
    "is_child",
]

# The exit statuses of a child whose GPU has stopped, or has no memory left for a launch (see `lost_gpu`).
GPU_LOST, GPU_FULL = 70, 71

Send = Callable[[Any], None]

_TAIL_BYTES = 3000


@dataclass(frozen=True)
class Ended:
    """How a child ended: `crash` names a signal or an exit status, and is empty if it came to its end or is late.

    `hung` says that it was killed because it sent nothing for too long, `is_late` because its time was over; `output`
    is the end of what it printed.
    """

    crash: str
    hung: bool
    output: str
    is_late: bool = False


def in_child(work: Callable[[Send], None], *, silence_s: float, until_s: float = inf) -> Iterator[Any]:
    """Run `work` in a forked child; yield what it sends, and an `Ended` at last.

    A child that sends nothing for `silence_s` hangs, and is killed; so is one that is still at work at `until_s`, a
    moment of time.monotonic.
    """
    with Child(work) as child:
        yield from child.messages(silence_s, until_s)


class Child:
    """A forked child that has begun to do some work; as a context manager it is killed at the end, if it is not over."""

    def __init__(self, work: Callable[[Send], None]) -> None:
        self._receiver, sender = Pipe(duplex=False)
        descriptor, name = tempfile.mkstemp(prefix="opsmith-check-")
        self._output = Path(name)
        self._ended: Ended | None = None
        flush_streams()
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads; the child starts none of theirs (see above).
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if self._process == 0:
            self._receiver.close()
            _be_child(work, sender, descriptor)
        sender.close()
        os.close(descriptor)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(hung=False, is_over=False)

    def messages(self, silence_s: float | None, until_s: float = inf) -> Iterator[Any]:
        """Yield what it sends, and an `Ended` at last; None lets it be silent indefinitely."""
        while True:
            left_s = max(0.0, until_s - time.monotonic())
            patience_s = left_s if silence_s is None else min(silence_s, left_s)
            if not self._receiver.poll(patience_s if patience_s < inf else None):
                is_late = time.monotonic() >= until_s
                yield self._end(hung=not is_late, is_over=False, is_late=is_late)
                return
            try:
                message = self._receiver.recv_bytes()
            except (EOFError, OSError):
                yield self._end(hung=False, is_over=True)
                return
            yield pickle.loads(message)

    @property
    def connection(self) -> Connection:
        """What its messages arrive at."""
        return self._receiver

    def _end(self, *, hung: bool, is_over: bool, is_late: bool = False) -> Ended:
        """Return how the child ended; one that is not over is killed."""
        if self._ended is None:
            self._receiver.close()
            status = _end(self._process, is_over)
            crash = "" if is_late else _crash_of(status, hung)
            self._ended = Ended(crash, hung, _tail(self._output), is_late)
        return self._ended


def from_several(children: Sequence[Child]) -> Iterator[tuple[int, Any]]:
    """Yield what children send as it comes, each with the index of its child, and an `Ended` of each at last."""
    left = dict(enumerate(children))
    while left:
        ready = wait([child.connection for child in left.values()])
        for index, child in [(index, child) for index, child in left.items() if child.connection in ready]:
            message = next(child.messages(None))
            yield index, message
            if isinstance(message, Ended):
                del left[index]


_children: set[int] = set()


def is_child() -> bool:
    """Whether this process is a child that may crash."""
    return os.getpid() in _children


def _be_child(work: Callable[[Send], None], sender: Connection, output: int) -> None:
    """Do the work and leave, past all exit handlers: those are the parent's."""
    status = 1
    _children.add(os.getpid())
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        # What stood there before is pytest's or a notebook's, and goes elsewhere than to the descriptors.
        sys.stdout, sys.stderr = (
            open(descriptor, "w", errors="replace", closefd=False)  # noqa: SIM115 -- a descriptor, which stays open
            for descriptor in (1, 2)
        )
        # The parent's objects need no collection here, and a collection that visits them copies their pages.
        gc.freeze()
        die_with_parent()
        _crash_in_silence()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work(lambda message: sender.send_bytes(_packed(message)))
            except BaseException as error:
                traceback.print_exc()
                failed.append(error)

        # As large as a main thread's: deep recursion is not a finding.
        threading.stack_size(64 << 20)
        worker = threading.Thread(target=run)
        worker.start()
        worker.join()
        status = 1 if failed else 0
        sender.close()
    finally:
        flush_streams()
        os._exit(status)


def _crash_in_silence() -> None:
    """Leave no core file and nothing on stderr: a crash is expected here, and the parent reports it."""
    faulthandler.disable()
    # The handlers of runtime/crash_note.py, and those of libraries that are loaded here.
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
        signal.signal(number, signal.SIG_DFL)
    _env.set_default("OPSMITH_CRASH_NOTE", "off")
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _packed(message: Any) -> bytes:
    """Return a message as bytes that hold all of it.

    `Connection.send` would put tensors into shared memory and send where that is, which is gone when the child is.
    """
    return pickle.dumps(message)


def die_with_parent() -> None:
    """Have the kernel end this process with its parent (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _end(child: int, is_over: bool) -> int:
    """Return the child's status. A running one (it hangs, or its answer is not needed) is killed."""
    deadline_s = time.monotonic() + (5 if is_over else 0)
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if time.monotonic() >= deadline_s:
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1]
        time.sleep(0.005)


def _crash_of(status: int, hung: bool) -> str:
    if hung:
        return "no answer"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        names = {
            signal.SIGSEGV: "a segmentation fault",
            signal.SIGABRT: "an abort",
            signal.SIGFPE: "a division by zero",
            signal.SIGBUS: "a bus error",
            signal.SIGILL: "an illegal instruction",
        }
        return names.get(signal.Signals(number), signal.Signals(number).name)
    code = os.waitstatus_to_exitcode(status)
    if code in (GPU_LOST, GPU_FULL):
        return "the GPU stops" if code == GPU_LOST else "the GPU's memory is full"
    return f"exit status {code}" if code else ""


def _tail(file: Path) -> str:
    try:
        text = file.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        file.unlink()
    except OSError:
        return ""
    return text.strip()
