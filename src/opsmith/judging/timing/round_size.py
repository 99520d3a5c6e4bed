"""Decides how many calls make a round of timing, from the time of one and the size of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from opsmith.judging.scaled import FACTORS, are_scalable, bytes_of
from opsmith.judging.structure import may_be_scaled
from opsmith.judging.tasks.trees import tensors_of
from opsmith.judging.timing.clock import Overhead
from opsmith.judging.trial import Trial, Values

__all__ = ["RoundSize", "bytes_of_call", "bytes_of_round", "size_of_rounds"]

# A round is about so long, has at most so many calls, and inputs of so many elements and bytes that the task makes. On a GPU
# it is longer: what a batch costs there is known less well.
_ROUND_S = {"cpu": 0.004, "cuda": 0.016}
_MOST_CALLS, _MOST_ELEMENTS, _MOST_BYTES = 256, 1 << 21, 512 << 20
_LEAST_CALLS = 2
# Where calls are over before the clock can tell: there are copies of these inputs, of so many bytes, and no more than this
# part of the memory that is free. Both processes have them, and results of as many calls.
_COPIED_ON, _COPIED_BYTES, _COPIED_PART = ("cuda",), 8 << 30, 1 / 16
# A round begins with calls that do not count: about so long, so many at most, on so many inputs of their own.
_LEAD_IN_S, _MOST_LEAD_IN, _LEAD_SLOTS = 0.001, 256, 2
# Of inputs with more bytes one call's are made where there are copies, and one's for those that do not count: by the host's
# memory, sending them to the other process and holding them against what they were takes a second a gigabyte.
_LARGE_BYTES = 256 << 20
# What is shorter is this: a batch cannot take no time.
_LEAST_S = 1e-9
_PROBES = 3
# So many bytes of results of a round are looked at.
_READ_BYTES = 256 << 20


@dataclass(frozen=True)
class RoundSize:
    """How many calls a round has: `count` of them count, on `made` inputs of the task's and copies of these.

    `lead_in` come before, on `lead` inputs of their own, and the results of `read` are looked at.
    """

    made: int
    count: int
    lead_in: int
    lead: int
    read: int


def size_of_rounds(trial: Trial, make: Callable[[int], Values], seed: int, overhead: Overhead) -> RoundSize:
    """Return the size, by calls of the candidate; raises CellError where one of them does."""
    values, device = make(seed), trial.cell.device
    most = _most_calls(values)
    call_s = _seconds_of_call(trial, make, seed, overhead, max(most, 1))
    results = trial.plain(trial.cell.give([0])[0])
    wanted = int(_ROUND_S[device] / call_s)
    has_copies = device in _COPIED_ON and are_scalable(values) and may_be_scaled(make, seed)
    is_large = has_copies and bytes_of_call(values) > _LARGE_BYTES
    made = count = max(1 if is_large else _LEAST_CALLS, min(most, wanted))
    if has_copies:
        room = made + _room_bytes(device) // max(1, bytes_of_call(values))
        count = max(_LEAST_CALLS, min(_MOST_CALLS, wanted, room, made * (1 + len(FACTORS))))
    lead_in = max(1, min(_MOST_LEAD_IN, int(_LEAD_IN_S / call_s)))
    read = max(_LEAST_CALLS, min(count, _READ_BYTES // max(1, sum(map(bytes_of, results)))))
    return RoundSize(made, count, lead_in, 1 if is_large else _LEAD_SLOTS, read)


def _seconds_of_call(trial: Trial, make: Callable[[int], Values], seed: int, overhead: Overhead, most: int) -> float:
    """Return about how long a call takes, from as many as take long enough to tell, each on inputs of its own."""
    count = 1
    while True:
        slots = [make(seed - 1 - index) for index in range(count)]
        trial.load(slots)
        every = [trial.run(range(count)) for _ in range(_PROBES)]
        taken_s = max(min(done.wall_s for done in every) - overhead.of(count), _LEAST_S)
        if count >= most or taken_s > _ROUND_S[trial.cell.device] / 2:
            return taken_s / count
        count = min(4 * count, most)


def bytes_of_call(values: Values) -> int:
    """Return how many bytes the inputs of a call have."""
    return bytes_of(list(values.values()))


def bytes_of_round(values: Values) -> int:
    """Return how many bytes the inputs of a round have at most."""
    return (max(_LEAST_CALLS, _most_calls(values)) + _LEAD_SLOTS) * bytes_of_call(values)


def _most_calls(values: Values) -> int:
    """Return how many calls of a round have inputs of their own, as far as these are not too large."""
    tensors = tensors_of(list(values.values()))
    elements, nbytes = sum(one.numel() for one in tensors), bytes_of(tensors)
    return int(min(_MOST_CALLS, _MOST_ELEMENTS / max(elements, 1), _MOST_BYTES / max(nbytes, 1)))


def _room_bytes(device: str) -> int:
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else _COPIED_BYTES / _COPIED_PART
    return int(min(_COPIED_BYTES, free * _COPIED_PART))
