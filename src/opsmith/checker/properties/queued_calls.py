"""Calls an operator while its earlier calls still wait for the GPU, on one stream and on several at once.

What a call keeps outside of its own memory, such as a workspace, an array of the device or a number in pinned memory, is
then overwritten by a later call before it is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.bits import differences
from opsmith.checker.calls import accepted, accepts, other_numbers
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["interference"]

# On so many streams, and how a result changes that does so there.
_WAYS = (
    (1, "changes when the next call is made before the GPU has come to this one"),
    (4, "changes when calls run on several streams at once"),
)
_ROUNDS = 16
# Some hundredths of a second: longer than it takes to queue all calls.
_WAIT_CYCLES = 100_000_000


@dataclass(frozen=True)
class _Call:
    """A call with its arguments on the GPU, and the results that it has when the GPU has nothing else to do."""

    case: Case
    values: Mapping[str, Any]
    results: Mapping[str, Tensor]


def interference(context: Context) -> tuple[Case, str] | None:
    """Return a call whose results change when others are queued or run beside it, and how; None where there is none."""
    if context.subject.mutated:
        return None  # each call would need arguments of its own
    calls = list(_calls(context))
    if len(calls) < 2:
        return None
    for count, how in _WAYS:
        context.tell(f"calls whose result {how}")
        streams = [torch.cuda.Stream(device=0) for _ in range(count)]
        # The first time the allocator asks the driver for memory of each stream, which may wait for the GPU.
        for _ in range(2):
            if (found := _first_wrong(calls, _results_of(context, calls, streams))) is not None:
                return found.case, how
    return None


def _calls(context: Context) -> Iterator[_Call]:
    """Yield a few calls that differ in numbers, sizes and arguments, and give the same bits whenever they are made."""
    plain = list(islice(accepted(context, "plain"), 1))
    large = list(islice(accepted(context, "large"), 1))
    scalars = list(islice(accepted(context, "scalars"), 3))
    for case in [*large, *map(other_numbers, large), *plain, *map(other_numbers, plain), *scalars]:
        if not accepts(context, case):
            continue
        values = case.build("cuda:0")
        with contextlib.suppress(RuntimeError):
            one, other = (_named(context.subject.results(context.subject.kernel, values)) for _ in range(2))
            torch.cuda.synchronize()
            if not differences(one, other):
                yield _Call(case, values, one)


def _results_of(context: Context, calls: list[_Call], streams: list[torch.cuda.Stream]) -> list[list[Tensor]]:
    """Queue calls in turn on each of some streams, behind a wait, so that all of them begin at once."""
    subject = context.subject
    torch.cuda.synchronize()
    gate = torch.cuda.Event()
    with torch.cuda.stream(streams[0]):
        torch.cuda._sleep(_WAIT_CYCLES)
        gate.record()
    for stream in streams[1:]:
        stream.wait_event(gate)
    found = []
    for turn in range(_ROUNDS * len(streams)):
        with torch.cuda.stream(streams[turn % len(streams)]):
            # All streams go through all calls, each at another place of the row.
            call = calls[(turn + turn // len(streams)) % len(calls)]
            found.append(subject.results(subject.kernel, call.values))
    torch.cuda.synchronize()
    return found


def _first_wrong(calls: list[_Call], found: list[list[Tensor]]) -> _Call | None:
    streams = len(found) // _ROUNDS
    for turn, results in enumerate(found):
        call = calls[(turn + turn // streams) % len(calls)]
        if differences(call.results, _named(results)):
            return call
    return None


def _named(results: list[Tensor]) -> dict[str, Tensor]:
    return {f"output {index}": result for index, result in enumerate(results)}
