"""Uses standard streams that a program may have replaced, closed, or never had.

A replaced one may be able to write and flush, and nothing else. sys.stdout, stderr and stdin are None under pythonw, and
where the process was started with the descriptor closed (`2>&-`).
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

__all__ = ["flush_streams", "is_terminal", "write_line"]


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is open and a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # without the method; closed
        return False


def write_line(stream: TextIO | None, text: str) -> None:
    """Write a line and flush it, where there is a stream and it is open."""
    if stream is not None and not getattr(stream, "closed", False):
        stream.write(f"{text}\n")
        stream.flush()


def flush_streams() -> None:
    """Flush stdout and stderr, before another process or none goes on with their descriptors."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "flush") and not getattr(stream, "closed", False):
            stream.flush()
