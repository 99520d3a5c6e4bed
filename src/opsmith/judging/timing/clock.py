"""Times a candidate from outside of its process: by the wall clock of the judge, around a batch of calls.

A candidate can change every clock of its own process, and none of the judge's. What the way there and back costs, and a
call of nothing, is measured in the same process before the candidate is imported, and taken off.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

import torch

from opsmith.judging.cell import Batch, Cell
from opsmith.judging.gpu_cache import GpuCache

__all__ = ["CallTime", "Overhead", "measure_overhead", "time_here"]

_FEW, _MANY = 1, 256
# On a GPU a batch is written by way of the host, which takes a tenth of a second for many calls.
_TRIES = {"cpu": 25, "cuda": 9}
# The shortest on a CPU: what other programs add here must not be taken off from the candidate's time. To reach a GPU and to
# wait for it takes a third more at one time than at another, in the batches that are timed as well.
_TYPICAL: dict[str, Callable[[Iterable[float]], float]] = {"cpu": min, "cuda": median}
# Large inputs are written and read a few times.
_LEAST_TRIES, _TRIED_BYTES = 3, 256 << 20
# At most the rest of a batch's time is taken for what the judge adds.
_LEAST_PART, _LEAST_S = 0.5, 1e-9


@dataclass(frozen=True)
class CallTime:
    """Seconds of a call in a batch: `whole_s` with what the judge adds, `own_s` without, `left_s` of the judge's in that.

    The part `shared` is what more threads than it was given did beside each other.
    """

    whole_s: float
    own_s: float
    left_s: float = 0.0
    shared: float = 0.0


@dataclass(frozen=True)
class Overhead:
    """What a batch costs without the candidate, in seconds: once, for each call, and for each byte of inputs.

    The bytes are read in the time of an exact batch (see `Cell.run`), since the judge has only just written them.
    """

    batch_s: float
    call_s: float
    byte_s: float = 0.0

    def of(self, count: int) -> float:
        """Return what a batch of so many calls costs beside reading its inputs."""
        return self.batch_s + count * self.call_s

    def call_of(self, done: Batch, count: int, nbytes: int) -> CallTime:
        """Return the time of a call in a batch of `count`, in whose time `nbytes` of inputs were read."""
        least_s, of_calls_s = _LEAST_PART * done.wall_s, self.of(count)
        without_reading_s = done.wall_s - nbytes * self.byte_s
        whole_s = max(without_reading_s, least_s)
        own_s = max(whole_s - of_calls_s, least_s)
        left_s = max(own_s - max(without_reading_s - of_calls_s, 0.0), 0.0)
        return CallTime(whole_s / count, own_s / count, left_s / count, done.shared_s / max(done.wall_s, _LEAST_S))


def measure_overhead(cell: Cell, nbytes: int = 0) -> Overhead:
    """Return what calls of nothing take in a cell whose candidate is not open yet; inputs of a batch have about `nbytes`."""
    cell.open_empty()
    typical = _TYPICAL[cell.device]
    few, many = (
        typical(_empty_batch_s(cell, [torch.zeros(1)] * count, [0] * count) for _ in range(_TRIES[cell.device]))
        for count in (_FEW, _MANY)
    )
    call_s = max(0.0, (many - few) / (_MANY - _FEW))
    byte_s = 0.0
    if cell.is_exact and nbytes:
        inputs = [torch.zeros(nbytes, dtype=torch.uint8)]
        tries = max(_LEAST_TRIES, min(_TRIES[cell.device], _TRIED_BYTES // nbytes))
        byte_s = max(0.0, min(_empty_batch_s(cell, inputs, [0]) for _ in range(tries)) - few) / nbytes
    return Overhead(max(0.0, few - call_s * _FEW), call_s, byte_s)


def _empty_batch_s(cell: Cell, inputs: Sequence[torch.Tensor], order: Sequence[int]) -> float:
    cell.load([[one] for one in inputs], keep=True, hidden_from=0)
    return cell.run(order, is_timed=True).wall_s


def _read(values: Any) -> None:
    """Read all tensors in lists, whatever their types."""
    if isinstance(values, torch.Tensor):
        if values.numel():
            # A sum of bytes takes ninety times as long.
            values.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).max()
    elif isinstance(values, list | tuple):
        for value in values:
            _read(value)


def time_here(
    function: Callable[..., Any], calls: Sequence[Sequence[Any]], lead_in: Sequence[Sequence[Any]], device: str
) -> tuple[float, list[Any]]:
    """Return the seconds of one call of a function of the judge's own, as the mean over some calls, and all results.

    As in a candidate's process, inputs have just been read, and some calls come before that do not count.
    """
    wait = torch.cuda.synchronize if device == "cuda" else _nothing
    if device == "cpu":
        _read(calls)
    with torch.no_grad():
        for arguments in lead_in:
            function(*arguments)
        if device == "cuda":
            _gpu_cache().empty()
        wait()
        gc.disable()
        try:
            begun = time.perf_counter()
            kept = [function(*arguments) for arguments in calls]
            wait()
            wall_s = time.perf_counter() - begun
        finally:
            gc.enable()
    return wall_s / len(calls), kept


@cache
def _gpu_cache() -> GpuCache:
    return GpuCache()


def _nothing() -> None:
    """Wait for nothing: a call of the CPU is over when it returns."""
