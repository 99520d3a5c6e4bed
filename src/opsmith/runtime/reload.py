"""Replaces a library of operators by its next version in the same process.

PyTorch ends the process where an operator is defined twice, and where a kernel comes back with another C++ signature.
So the earlier library gives its registrations back (build/release.cpp), its code stays for callers that still hold it,
and all this is rehearsed in a fork first, which may end as it likes.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import re
import resource
import select
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from opsmith.errors import LoadError
from opsmith.runtime.registrations import Registered, Registrations

__all__ = ["replace_registrations"]

_REHEARSAL_S = 60.0
_LOADED, _NOT_LOADED = 0, 3
_NOLOAD = 4  # RTLD_NOLOAD: the handle of what is there already
# A dispatch key that no kernel is for. A registration under it keeps an operator's entry alive between two versions, so
# that what Python, TorchScript or another library took from torch.ops before stays valid, and then calls the new one.
_UNUSED_KEY = "FPGA"
_WHAT = re.compile(r"what\(\):\s*(.+?)(?:\n\s*\n|\nException raised|\Z)", re.DOTALL)

_pins: dict[str, Any] = {}


def replace_registrations(old: Registered, file: Path) -> bool:
    """Take back what a library registered, so that the library `file` can be loaded. It is not loaded here.

    Return False if the old library cannot give its registrations back. Raises LoadError, and changes nothing, where
    the new one would end the process or cannot be loaded.
    """
    release = _release_of(old.file)
    if release is None:
        return False
    operators = _operators_of(old.registrations)
    for operator in operators:
        _pin(operator)
    _rehearse(old.name, release, file)
    release()
    old.released = True
    _forget(operators)
    return True


def _release_of(file: Path) -> Any | None:
    try:
        return ctypes.CDLL(str(file), mode=_NOLOAD | os.RTLD_LAZY).opsmith_release
    except (OSError, AttributeError):
        return None


def _operators_of(registrations: Registrations) -> list[str]:
    """Return the full names of what a library may have defined: a namespace of its own is its own."""
    everything = torch._C._dispatch_get_all_op_names()
    return [
        name
        for name in everything
        if name.partition("::")[0] in registrations.namespaces or name in registrations.operators
    ]


def _pin(operator: str) -> None:
    if operator not in _pins:
        namespace, _, name = operator.partition("::")
        library = torch._C._dispatch_library("IMPL", namespace, _UNUSED_KEY)
        library.impl(name, _UNUSED_KEY, _never_called)
        _pins[operator] = library


def _never_called(*arguments: Any) -> None:
    raise AssertionError(f"there is no {_UNUSED_KEY} device")


def _forget(operators: list[str]) -> None:
    """Drop what torch.ops knows of operators: the next look shows the schema of the new version."""
    for operator in operators:
        namespace, _, rest = operator.partition("::")
        holder, name = getattr(torch.ops, namespace), rest.partition(".")[0]
        vars(holder).pop(name, None)
        if name in (listed := getattr(holder, "_dir", [])):
            listed.remove(name)


def _rehearse(name: str, release: Any, file: Path) -> None:
    """Do it in a fork. Raises LoadError if that ends badly, with PyTorch's reason."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Other threads do not exist in the fork; nothing here needs them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover -- another process
        _act(release, file, writing)
    os.close(writing)
    output, status = _attend(child, reading)
    if status is not None and os.WIFEXITED(status) and os.WEXITSTATUS(status) == _LOADED:
        return
    what = _WHAT.search(output)
    reason = " ".join((what[1] if what else output).split()) or "it did not end"
    raise LoadError(
        f"the new version of {name} cannot replace the earlier one in this process: {reason[:1000]}. PyTorch keeps an "
        "operator's C++ signature until the process ends: start a new process, or rename the changed operator"
    )


def _act(release: Any, file: Path, writing: int) -> None:  # pragma: no cover -- in the fork
    status = _NOT_LOADED
    try:
        # It may well abort: suppress the traceback and the core file.
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        release()
        ctypes.CDLL(str(file))
        status = _LOADED
    except BaseException as error:
        os.write(2, str(error).encode())
    finally:
        os._exit(status)


def _attend(child: int, reading: int) -> tuple[str, int | None]:
    """Return a child's output and status; None if it had to be killed."""
    output = b""
    end = time.monotonic() + _REHEARSAL_S
    try:
        while (left := end - time.monotonic()) > 0:
            if not select.select([reading], [], [], left)[0]:
                break
            if not (part := os.read(reading, 1 << 16)):
                return output.decode(errors="replace"), os.waitpid(child, 0)[1]
            output += part
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return output.decode(errors="replace"), None
    finally:
        os.close(reading)
