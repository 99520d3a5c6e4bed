"""Bounds what a candidate takes of a GPU's memory, as far as that can be done from another process.

Inside its process the allocator of PyTorch is given a limit, which ends an honest candidate with an exception; what calls
CUDA itself is not held by it. From here the memory in use on the whole GPU is watched. The driver tells no process what
another one has where they have namespaces of their own, so what other programs take meanwhile counts as the candidate's;
what other judgements may take is known from their claims (see `gpu_claims`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from opsmith.judging.gpu_claims import Claim
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge

__all__ = ["COPIES", "SLACK_BYTES", "GpuMemory", "make_free", "own_bytes", "used_by_others_bytes", "usual_limit_bytes"]

# Without a limit of one's own a candidate has so much of the card: the reference runs beside it.
_SHARE = 0.5
# The inputs lie there up to three times: as they are, at another place, and a copy that arrives late.
COPIES = 3
# The judge loads kernels at their first calls, the driver what it needs, and the next candidate's process may start.
SLACK_BYTES = 1 << 30
# The driver has back what a program had that ends, other judgements' with their claims too, after so long at the latest.
_GIVEN_BACK_S, _LOOK_S = 2.0, 0.05
# Where inputs take more than such a part of what is free, memory is short.
_TIMES_FREE = 8
# Bound before a candidate is imported.
_empty_cache, _ask_for_free = torch.cuda.empty_cache, torch.cuda.mem_get_info


class GpuMemory:
    """The memory of the current GPU as it is when a candidate's process has started CUDA, and what may come to it."""

    def __init__(
        self, most_bytes: int, used_bytes: Callable[[], int] | None = None, claim: Claim | None = None
    ) -> None:
        self._most_bytes, self._claim = most_bytes, claim
        self._used_bytes = used_bytes or used_by_others_bytes
        self._before = self._used_bytes()

    def excess(self, inputs_bytes: int, passage_bytes: int = 0) -> Charge | None:
        """Return the charge where more is in use than a candidate with inputs and results of a size may have.

        The judge's own are the bytes that these go through (see `gpu_area`). It has to be in use for some seconds.
        """
        until_s = time.monotonic() + _GIVEN_BACK_S
        while (charge := self._excess_now(inputs_bytes, passage_bytes)) is not None and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return charge

    def _excess_now(self, inputs_bytes: int, passage_bytes: int) -> Charge | None:
        taken = self._used_bytes() - self._before - passage_bytes
        most_bytes = self._most_bytes + COPIES * inputs_bytes + SLACK_BYTES
        if self._claim is not None:
            self._claim.set(most_bytes + passage_bytes + own_bytes())
        if taken <= most_bytes:
            return None
        others_bytes = 0 if self._claim is None else self._claim.others_bytes()
        if taken <= most_bytes + others_bytes:
            return None
        text = f"{taken >> 20} MiB more of the GPU's memory are in use, and it may take {self._most_bytes >> 20}"
        others = f", and other judgements {others_bytes >> 20}" if others_bytes else ""
        return Charge(Refusal.OVER_MEMORY, f"{text} (--gpu-memory-gib) beside its inputs and results{others}")


def used_by_others_bytes() -> int:
    """Return what is in use on the current GPU beside this process's tensors."""
    free, total = torch.cuda.mem_get_info()
    return total - free - own_bytes()


def own_bytes() -> int:
    """Return what PyTorch's allocator has in this process of the current GPU."""
    return torch.cuda.memory_reserved()


def usual_limit_bytes() -> int:
    """Return what a candidate may take of the current GPU where nobody says how much."""
    return int(_SHARE * torch.cuda.mem_get_info()[1])


def make_free(nbytes: int, device: str) -> None:
    """Give back what PyTorch's allocator keeps in this process, where memory is short for inputs of a size.

    The allocator of the other process can have it then.
    """
    if device == "cuda" and _ask_for_free()[0] < _TIMES_FREE * nbytes:
        _empty_cache()
