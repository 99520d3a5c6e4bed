"""Tries something that may crash or hang, in a child process, and says how that ended."""

from __future__ import annotations

import os
import resource
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opsmith.checker.process.child import Ended, in_child
from opsmith.errors import OpsmithError

__all__ = ["Raised", "all_pass", "attempt"]

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


# Whether this process is a child already, in which one input after another is tried.
_is_child = False


def all_pass(test: Callable[[Any], None], values: Sequence[Any]) -> bool:
    """Run a test that calls `attempt` on many values in one child, which takes a tenth of the time; whether all pass."""

    def run(send: Callable[[Any], None]) -> None:
        global _is_child  # noqa: PLW0603 -- the child's own
        _is_child = True
        for value in values:
            test(value)
            send(None)

    *passed, ended = in_child(run, silence_s=_SILENCE_S)
    return len(passed) == len(values) and not _says_more(ended)


def _says_more(ended: Ended) -> bool:
    """Whether a child's output has a traceback, or a report of UndefinedBehaviorSanitizer's, which ends nothing."""
    return any(words in ended.output for words in ("Traceback (most recent call last)", "runtime error:"))


def attempt(work: Callable[[], Any]) -> Any | Raised:
    """Return what some work returns in a child process, or what it raises; fails where the child crashes or hangs."""

    if _is_child:
        return _outcome(work)

    def tell(send: Callable[[Any], None]) -> None:
        send(_outcome(work))

    *found, ended = in_child(tell, silence_s=_SILENCE_S)
    assert isinstance(ended, Ended)
    assert not ended.hung, f"hangs: {ended.output}"
    assert not ended.crash, f"{ended.crash}: {ended.output}"
    assert not _says_more(ended), ended.output
    return found[0]


def _outcome(work: Callable[[], Any]) -> Any | Raised:
    # Sanitizers reserve terabytes of addresses.
    if "LD_PRELOAD" not in os.environ:
        _limit_memory()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    except Exception as error:
        return Raised(type(error).__name__, str(error), isinstance(error, OpsmithError))


def _limit_memory() -> None:
    pages = int(open("/proc/self/statm").read().split()[0])  # noqa: PTH123, SIM115
    most = pages * resource.getpagesize() + _MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
