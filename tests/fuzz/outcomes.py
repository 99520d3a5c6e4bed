"""Tries something that may crash or hang, in a child process, and says how that ended."""

from __future__ import annotations

import os
import resource
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opsmith.checker.process.child import Ended, in_child
from opsmith.errors import OpsmithError

__all__ = ["Raised", "attempt"]

# A call that takes longer hangs.
_SILENCE_S = 30.0
# What a child may allocate on top of what the parent has. A request for more is an error like any other.
_MOST_BYTES = 2 << 30


@dataclass(frozen=True)
class Raised:
    """An exception, as it was printed."""

    kind: str
    text: str
    is_ours: bool


def attempt(work: Callable[[], Any]) -> Any | Raised:
    """Return what some work returns in a child process, or what it raises; fails where the child crashes or hangs."""

    def tell(send: Callable[[Any], None]) -> None:
        # Sanitizers reserve terabytes of addresses.
        if "LD_PRELOAD" not in os.environ:
            _limit_memory()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = work()
        except Exception as error:
            found = Raised(type(error).__name__, str(error), isinstance(error, OpsmithError))
        send(found)

    *found, ended = in_child(tell, silence_s=_SILENCE_S)
    assert isinstance(ended, Ended)
    assert not ended.hung, f"hangs: {ended.output}"
    assert not ended.crash, f"{ended.crash}: {ended.output}"
    assert "Traceback (most recent call last)" not in ended.output, ended.output
    assert "runtime error:" not in ended.output, ended.output  # UndefinedBehaviorSanitizer's, which ends nothing
    return found[0]


def _limit_memory() -> None:
    pages = int(open("/proc/self/statm").read().split()[0])  # noqa: PTH123, SIM115
    most = pages * resource.getpagesize() + _MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
