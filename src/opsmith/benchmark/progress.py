"""Describes how far a benchmark is, for a screen; it is updated only while nothing is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opsmith.benchmark.result import Timing

__all__ = ["Progress", "Watch"]


@dataclass(frozen=True)
class Progress:
    """`done` of `total` parts (one size, element type and phase each) are over; `doing` says in words what comes next.

    `timings` are those so far.
    """

    operator: str
    doing: str
    done: int = 0
    total: int = 0
    timings: tuple[Timing, ...] = ()


# Called before each thing that takes long: a part, the making of a competitor, the rounds. Drawing takes processor time
# and caches away from what is timed, so it is not called between samples.
Watch = Callable[[Progress], Any]
