"""Asks glibc how much memory malloc has given out."""

from __future__ import annotations

import ctypes

__all__ = ["heap_bytes"]


class _HeapInfo(ctypes.Structure):
    """glibc's struct mallinfo2; `in_use` and `mapped` are its uordblks and hblkhd, summed over all arenas."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "mapped",
            "usmblks",
            "fsmblks",
            "in_use",
            "free",
            "keepcost",
        )
    ]


def heap_bytes() -> int | None:
    """Return how much memory malloc has given out, or None if the C library does not say."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    ask.restype = _HeapInfo
    info = ask()
    return int(info.in_use + info.mapped)
