"""Times the levels of a call: all of them in turn, in random order, with the same inputs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opsmith.benchmark.clock import repeats_for
from opsmith.profiler.loops import Call, Loop, cpp_loop, empty_loop, python_loop, timed_loop, window
from opsmith.profiler.parts import Round
from opsmith.profiler.timed import TimedTwin
from opsmith.runtime.bridge import find_bridge
from opsmith.runtime.operator import Operator

__all__ = ["Ladder", "RoundLimits", "climb", "ladder_of", "operator_ladder"]

# A GPU's queue holds about a thousand launches, and what is launched without waiting must not fill it.
_MOST_QUEUED = 200
# Work that is queued on the GPU by one sample, in seconds.
_MOST_QUEUED_S = 0.05


@dataclass(frozen=True)
class RoundLimits:
    """How long to measure: at least `rounds`, and until `seconds` are over or `most_rounds` are done."""

    rounds: int = 15
    seconds: float = 2.0
    most_rounds: int = 100


@dataclass(frozen=True)
class Ladder:
    """The levels of one operator by name, and what they could not tell."""

    levels: dict[str, Loop]
    notes: tuple[str, ...] = ()


def ladder_of(call: Callable[..., Any], example: Call) -> Ladder:
    """Return the one level of a function that is not an operator of opsmith's, or calls none: the whole call."""
    return Ladder({"whole": python_loop(call, example), "empty": empty_loop(example)})


def operator_ladder(
    call: Callable[..., Any],
    twin_call: Callable[..., Any],
    operator: Operator,
    twin: TimedTwin | None,
    example: Call,
    inner: Call,
) -> Ladder:
    """Return the levels of a call that comes to one of an operator.

    `call` is timed as it is; `twin_call` is the same with clocks inside, and `operator` is what that comes to: the timed
    twin, or the operator itself where it has no kernel of its own and `twin` is None. `example` is a call at the top, and
    `inner` one of the operator.
    """
    levels = dict(ladder_of(call, example).levels)
    notes = [] if twin is not None else ["there is no kernel for this device: the dispatcher calls the body in PyTorch"]
    # `_fast` is a slot of the instance: it is set where the bridge serves this very operator.
    bridge = find_bridge() if hasattr(operator, "_fast") else None
    below = torch._C._AutoDispatchBelowAutograd
    found = {"python": python_loop(twin_call, example)}
    if bridge is None:
        notes.append("the bridge is not in use: the dispatcher's part includes what torch.ops does in Python")
        found["dispatch"] = python_loop(operator.torch_op, inner)
        found["below"] = python_loop(operator.torch_op, inner, below)
    else:
        found["dispatch"] = cpp_loop(bridge, operator._fast)
        found["below"] = cpp_loop(bridge, operator._fast, below)
    if twin is not None:
        found = {name: timed_loop(twin, loop) for name, loop in found.items()}
    return Ladder({**levels, **found}, tuple(notes))


def climb(
    ladder: Ladder,
    calls: Mapping[str, Sequence[Call]] | Sequence[Call],
    device: str,
    limits: RoundLimits,
    *,
    seed: int = 0,
) -> list[Round]:
    """Take one sample of each level in every round; a GPU is waited for before and after, not inside.

    `calls` are those of all levels, or by level where they differ in form: what is called at the top may make the call
    below it by itself.
    """
    by_level = calls if isinstance(calls, Mapping) else dict.fromkeys(ladder.levels, calls)
    repeats = {name: _repeats(level, by_level[name], device) for name, level in ladder.levels.items()}
    order, shuffle = list(ladder.levels), random.Random(seed)
    rounds: list[Round] = []
    offset = 0
    started = time.perf_counter()
    while len(rounds) < limits.most_rounds:
        shuffle.shuffle(order)
        item = {}
        for name in order:
            given = window(by_level[name], offset, repeats[name])
            _wait(device)
            item[name] = ladder.levels[name](given, repeats[name])
            offset += len(given)
        rounds.append(item)
        if len(rounds) >= limits.rounds and time.perf_counter() - started > limits.seconds:
            break
    _wait(device)
    return rounds


def _repeats(level: Loop, calls: Sequence[Call], device: str) -> int:
    level(calls[:1], 1)
    _wait(device)
    best = min(next(iter(level(calls[:1], 1).values())) for _ in range(3))
    if device == "cpu":
        return repeats_for(best)
    started = time.perf_counter()
    level(calls[:1], 3)
    _wait(device)
    done_s = (time.perf_counter() - started) / 3
    return max(3, min(_MOST_QUEUED, repeats_for(best), round(_MOST_QUEUED_S / max(done_s, 1e-9))))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
