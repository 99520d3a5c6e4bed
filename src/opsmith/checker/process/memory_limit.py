"""Limits the memory of a process, so that a size of 2^31 ends in an exception and does not take the machine's memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["limit_memory", "limited_memory"]

# What may come to what the process has.
_MORE_BYTES = 4 << 30


def limit_memory(more_bytes: int = _MORE_BYTES) -> None:
    """Limit what this process takes from here on (Linux)."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + more_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


@contextlib.contextmanager
def limited_memory(more_bytes: int = _MORE_BYTES) -> Iterator[None]:
    """Limit what this process takes until the end of the block, beside what it has; a limit that is there stays."""
    if sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    if before[0] < 0:
        limit_memory(more_bytes)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
