"""Races between the threads of one call on the CPU."""

from __future__ import annotations

from row import VALUES, Planted, rows

__all__ = ["ROWS"]

_ANYWHERE = (*VALUES, "determinism")

ROWS: tuple[Planted, ...] = rows(
    "races",
    "races",
    ("scatter_add", "threads", "threads add to the same rows without atomics", _ANYWHERE),
    ("signs", "threads", "threads count into the same numbers without atomics", _ANYWHERE),
    ("compact", "threads", "threads take places from one counter without atomics", _ANYWHERE),
    ("first_call", "threads", "a table is marked as made before it is", _ANYWHERE),
    ("shared_scratch", "threads", "scratch memory for each thread that is one for all", _ANYWHERE),
    ("no_wait", "threads", "the second phase begins before the first is over", _ANYWHERE),
    ("column_sums", "threads", "threads add to the same columns without atomics", _ANYWHERE),
)
