"""Has PyTorch imported, and forks for each candidate: importing it takes longer than many a judgement.

No candidate runs in this process. What a child has of it is what it would have imported itself; its walls are raised, and
its candidate is opened, in the child alone.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

# What each child needs: it is what this process is for.
import opsmith.judging.inside.calls  # noqa: F401
from opsmith.judging.inside.system_calls import become_subreaper

__all__ = ["serve"]

_MOST_BYTES = 1 << 17
_LOOK_S, _IDLE_S = 2.0, 600.0
_MOST_LOOKS = 1000


def serve(descriptor: int) -> list[str]:
    """Fork for each request that comes at a descriptor. Only the children return, with the arguments of `main.main`.

    It ends with the judge, and after ten minutes without a request.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody learns how a child has ended
    become_subreaper()
    gc.collect()
    gc.freeze()  # a collection would write to memory that parent and child have in common
    request = _Forker(socket.socket(fileno=descriptor)).run()
    if request is None:
        os._exit(0)
    return _become(request)


@dataclass(frozen=True)
class _Request:
    """What a child is to be, with the descriptors of its link to the judge and of its output."""

    told: dict[str, Any]
    link: int
    output: int


class _Forker:
    """Forks when it is asked to, and tells by a channel for each child its number and, asked again, how it has ended.

    The judge asks that when it has seen the end. A child whose channel it closes is killed, so none outlives the judge.
    """

    def __init__(self, control: socket.socket) -> None:
        self._judge, self._control = os.getppid(), control
        self._children: dict[socket.socket, int] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._is_wanted, self._asked_s = True, time.monotonic()

    def run(self) -> _Request | None:
        """Return in each child, with what it was asked for, and with None when nobody asks any more."""
        while os.getppid() == self._judge:
            is_idle = time.monotonic() - self._asked_s > _IDLE_S
            if not self._children and (is_idle or not self._is_wanted):
                return None
            self._end_others()
            for key, _ in self._selector.select(_LOOK_S):
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready is not self._control:
                    self._end(ready)
                elif (request := self._fork()) is not None:
                    return request
        return None

    def _fork(self) -> _Request | None:
        packed, descriptors, _, _ = socket.recv_fds(self._control, _MOST_BYTES, 3)
        if not packed:
            self._is_wanted = False
            self._selector.unregister(self._control)
            return None
        self._asked_s = time.monotonic()
        link, output, channel = descriptors
        answer = socket.socket(fileno=channel)
        try:
            child = os.fork()
        except OSError:  # the closed channel says it
            answer.close()
        else:
            if child == 0:
                self._selector.close()
                for one in (*self._children, answer, self._control):
                    one.close()
                return _Request(json.loads(packed), link, output)
            self._children[answer] = child
            self._selector.register(answer, selectors.EVENT_READ)
            with suppress(OSError):
                answer.send(str(child).encode())
        os.close(link)
        os.close(output)
        return None

    def _end(self, channel: socket.socket) -> None:
        """Say how a child has ended, or kill it where nobody asks."""
        child, is_asked = self._children.pop(channel), False
        with suppress(OSError):
            is_asked = bool(channel.recv(1))
        if is_asked:  # the judge has seen its end
            _, status = os.waitpid(child, 0)
            with suppress(OSError):
                channel.send(str(os.waitstatus_to_exitcode(status)).encode())
        self._selector.unregister(channel)
        channel.close()
        self._end_others()

    def _end_others(self) -> None:
        """Kill the children that nobody asks for any more, and what others have left behind, which come here.

        It does not wait for them: the driver of a GPU takes seconds to take apart what one has had, and meanwhile it is to
        fork. Those that have ended are gone from the table of processes at the next look.
        """
        own, killed = f"/proc/self/task/{os.getpid()}/children", set[int]()
        for _ in range(_MOST_LOOKS):  # one that forks and ends at once has another number at each
            try:
                with open(own) as file:  # noqa: PTH123 -- asked at each end
                    others = set(map(int, file.read().split())) - set(self._children.values())
            except OSError:
                return
            for one in others:
                with suppress(OSError):
                    os.kill(one, signal.SIGKILL)
                    os.waitpid(one, os.WNOHANG)
            if others <= killed:
                return
            killed |= others


def _become(request: _Request) -> list[str]:
    """Take the session, the output, the folder and the environment that a program of its own would have been given."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in enumerate((nothing, request.output, request.output)):
        os.dup2(source, descriptor)
    os.close(nothing)
    os.close(request.output)
    told = request.told
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.path[:] = told["path"]
    # Python's own generator is seeded by the fork.
    torch.default_generator.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    return [str(request.link), *told["arguments"]]
