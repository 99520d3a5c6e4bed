"""Sees results that are computed when they are read: they are slower to read the first time than the second.

On a CPU what counts is the time of processors that the candidate's process uses, which other programs do not delay. It is
looked at when the process has come to rest. OpenMP's threads wait for more work at full speed for some milliseconds after
a call, and Linux counts what a running thread uses at its next tick: at once, both would be charged to the read.

On a GPU it is the time, and both reads come after a pause. Programs that share a GPU have it in turns of some milliseconds:
a read that follows another one at once is still in its turn, and the first one, behind the judge's own work, would not be.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import median

from opsmith.judging.cell import Cell, Returned
from opsmith.judging.processes import Meter, family, is_running

__all__ = ["LateReads"]

# The first of the reads comes with the memory for results; fewer than these say nothing, and a suspicion takes more.
_DROPPED, _LEAST, _SURE = 1, 3, 15
# The first time may take so much of the calls' time longer, and so many seconds.
_PART, _LATE_S = 0.5, 0.001
# A process that is not at rest by then has threads that never are.
_REST_S, _LOOK_S = 0.25, 0.0005
_PAUSE_S = 0.005  # longer than a turn on a GPU


@dataclass(frozen=True)
class _Reads:
    """What the calls of a round used, and reading all their results the first and the second time, in seconds."""

    calls_s: float
    first_s: float
    second_s: float


class LateReads:
    """Reads of results of a batch, twice each, in the cell of a candidate."""

    def __init__(self, cell: Cell) -> None:
        self._cell, self._meter = cell, Meter(cell.pid)
        self._reads: list[_Reads] = []

    def used_s(self) -> float:
        """Return what the candidate's process has used of processors.

        Work on a GPU does not show in it; there it is the time.
        """
        return self._meter.used_s() if self._cell.device == "cpu" else time.perf_counter()

    def read(self, which: Sequence[int], begun_s: float) -> list[list[Returned | None]]:
        """Return results of some calls of a batch; `begun_s` is what had been used before it."""
        called_s = self._used_at_rest_s() - begun_s
        every, first_s = self._timed_read(which)
        _, second_s = self._timed_read(which)
        self._reads.append(_Reads(called_s, first_s, second_s))
        return every

    @property
    def missing(self) -> int:
        """How many more reads it takes until they say something."""
        return max(0, _DROPPED + _LEAST - len(self._reads))

    @property
    def are_late(self) -> bool:
        """Whether results are computed when they are read for the first time, as far as is known."""
        reads = self._reads[_DROPPED:]
        if len(reads) < _LEAST:
            return False
        calls_s, first_s, second_s = (median(one) for one in zip(*map(astuple, reads), strict=True))
        return bool(first_s - second_s > max(_LATE_S, _PART * max(calls_s, second_s)))

    @property
    def are_unsure(self) -> bool:
        """Whether they seem late, and more reads should say so."""
        return self.are_late and len(self._reads) < _DROPPED + _SURE

    def _timed_read(self, which: Sequence[int]) -> tuple[list[list[Returned | None]], float]:
        if self._cell.device != "cpu":
            time.sleep(_PAUSE_S)
        begun_s = self._used_at_rest_s()
        every = self._cell.give(which)
        return every, self._used_at_rest_s() - begun_s

    def _used_at_rest_s(self) -> float:
        if self._cell.device == "cpu":
            until_s = time.monotonic() + _REST_S
            while any(map(is_running, family(self._cell.pid))) and time.monotonic() < until_s:
                time.sleep(_LOOK_S)
        return self.used_s()
