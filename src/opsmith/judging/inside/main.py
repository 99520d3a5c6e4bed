"""The main program of a candidate's process: raises its walls, opens the candidate, and makes the calls it is told to.

What stands here runs beside the candidate, which may change all of it. The judge therefore believes nothing that comes
from here but bytes of results, and takes times itself (see `cell`). Functions that the calls need are bound before the
candidate is imported, so that what it patches in Python does not reach them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opsmith.judging.inside.walls import Fence, raise_walls
from opsmith.judging.messages import receive, send

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Serve the judge at a descriptor, and end: `descriptor scratch device memory_bytes gpu_bytes threads`."""
    descriptor, scratch, device, *numbers = arguments
    memory_bytes, gpu_bytes, threads = map(int, numbers)
    link = socket.socket(fileno=int(descriptor))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the judge's program may ignore it, and processes inherit that
    walls = raise_walls(Fence(Path(scratch), device, memory_bytes))
    import torch

    from opsmith.judging.inside.calls import Calls

    torch.set_num_threads(threads)
    send(link, {"walls": walls.in_force, "missing": walls.missing, "pid": os.getpid()})
    calls = Calls(device, gpu_bytes)
    _serve(link, calls, {} if device == "cpu" else _staged(calls))
    sys.stdout.flush()
    os._exit(0)  # threads of the candidate's do not keep the process


def _staged(calls: Any) -> Mapping[str, Callable[..., dict[str, Any]]]:
    from opsmith.judging.inside.staging import Staged

    return Staged(calls).answers


def _serve(link: socket.socket, calls: Any, more: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    answers: dict[str, Callable[..., dict[str, Any]]] = {
        "open": calls.open,
        "map": calls.map,
        "load": calls.load,
        "prepare": calls.prepare,
        "run": calls.run,
        "give": calls.give,
        "back": calls.back,
        "soil": calls.soil,
        "write_over": calls.write_over,
        "catch": calls.catch,
        **more,
    }
    say, hear, look = send, receive, select.select
    while True:
        try:
            message, descriptors = hear(link, 1)
        except EOFError:
            return
        number, name = message.pop("number"), message.pop("do")
        try:
            found = answers[name](*descriptors, **message)
        except BaseException as error:
            found = _described(error)
        say(link, {"number": number, **found})
        if name == "prepare" and "error" not in found:
            calls.device.stay_ready(lambda: bool(look([link], [], [], 0)[0]))


def _described(error: BaseException) -> dict[str, Any]:
    """Return what a candidate raised as plain data, with its last lines of a traceback."""
    import traceback

    try:
        text = str(error)[:2000]
        trace = "".join(traceback.format_exception(error))[-4000:]
    except BaseException:  # its own __str__
        text, trace = "", ""
    refusal = getattr(error, "refusal", None)
    return {
        "error": type(error).__name__,
        "message": text,
        "trace": trace,
        "refusal": refusal if isinstance(refusal, str) else "",
    }
