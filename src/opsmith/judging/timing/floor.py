"""Computes what no machine is faster than: the time to read the inputs of a call and to write its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from opsmith.benchmark.ceilings import Ceilings, ceilings
from opsmith.benchmark.machine import cache_bytes
from opsmith.judging.memory import span_of
from opsmith.judging.trial import Values

__all__ = ["Floor", "floor_of"]

# What one call moves comes from memory if it is so many times the last cache.
_TIMES_CACHE = 3
# No cache gives bytes so many times as fast as memory does, and no Python function is called in less than this.
_CACHE_RATE, _CALL_S = 16, 20e-9


@dataclass(frozen=True)
class Floor:
    """Seconds of one call: what a call of these bytes usually takes at the machine's rates, and what is impossible."""

    usual_s: float
    possible_s: float


def floor_of(
    values: Values, results: Sequence[Tensor], device: str, floor: Callable[[str], Ceilings] = ceilings
) -> Floor:
    """Return the floor for a call that reads all its inputs once and writes its results once."""
    known = floor(device)
    read, written = _bytes(values), sum(one.numel() * one.element_size() for one in results)
    usual_s = (read + written) / known.copy_bytes_s
    in_cache_s = known.possible_seconds(read, written, 0) / _CACHE_RATE
    is_cold = read + written > _TIMES_CACHE * cache_bytes(device)
    possible_s = known.possible_seconds(read, written, 0) if is_cold else max(in_cache_s, _CALL_S)
    return Floor(usual_s, possible_s)


def _bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return min(span_of(value), value.numel()) * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 0
