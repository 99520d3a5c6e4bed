"""Times an accepted candidate against eager PyTorch, call by call on inputs that it has never seen.

A round is a batch of calls in the candidate's process, each on inputs of its own, and calls of the reference here. The
results of a call that nobody can foresee, and of the last one, are compared; in some rounds all results are asked for
twice, since what is computed only then takes longer the first time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from opsmith.benchmark.statistics import Interval, median_interval, ratio_interval
from opsmith.judging.cell import CellError
from opsmith.judging.diagnosis import charge_for, is_near, same_numbers
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Speed
from opsmith.judging.scaled import FACTORS, Inputs, are_scalable, bytes_of
from opsmith.judging.tasks.trees import tensors_of
from opsmith.judging.timing.clock import Overhead, time_here
from opsmith.judging.timing.floor import Floor
from opsmith.judging.timing.late_reads import LateReads
from opsmith.judging.trial import Trial, Values, on_device

__all__ = ["Timed", "time_candidate"]

# A round is about so long, has at most so many calls, and inputs of so many elements and bytes that the task makes.
_ROUND_S, _MOST_CALLS, _MOST_ELEMENTS, _MOST_BYTES = 0.004, 256, 1 << 21, 512 << 20
# Where calls are over before the clock can tell: there are copies of these inputs, of so many bytes, and no more than this
# part of the memory that is free. Both processes have them, and results of as many calls.
_COPIED_ON, _COPIED_BYTES, _COPIED_PART = ("cuda",), 2 << 30, 1 / 16
# A round begins with calls that do not count: about so long, so many at most, on so many inputs of their own.
_LEAD_IN_S, _MOST_LEAD_IN, _LEAD_SLOTS = 0.001, 256, 2
_LEAST_CALLS, _WARM_UP, _LEAST_ROUNDS, _MOST_ROUNDS = 2, 2, 5, 60
# One posed call is timed for so long, where that is enough for the least number of rounds.
_SECONDS = 6.0
# What is shorter is this: a batch cannot take no time.
_LEAST_S = 1e-9
# At most the rest of a batch's time is taken for what the judge adds.
_LEAST_PART = 0.5
_PROBES = 3
# The interval of the ratio is narrow enough.
_NARROW = 0.01
# Results are read, twice, in every so many rounds: all of them, or those of some calls if they are larger.
_READ_EVERY, _READ_BYTES = 2, 256 << 20
_SEED_OF_ROUNDS = 1 << 20


@dataclass(frozen=True)
class Timed:
    """What came of timing one posed call: a speed for each rival, or why there is none."""

    speeds: tuple[Speed, ...] = ()
    charge: Charge | None = None


@dataclass
class _Samples:
    own_s: list[float] = field(default_factory=list)
    rivals_s: dict[str, list[float]] = field(default_factory=dict)


def time_candidate(
    trial: Trial,
    label: str,
    make: Callable[[int], Values],
    overhead: Overhead,
    floor: Floor,
    seed: int,
    rivals: Mapping[str, Callable[..., Any]],
) -> Timed:
    """Time the candidate for one call that the task poses, in turn with rivals that run here.

    `floor` is what no machine is faster than.
    """
    race = _Race(trial, label, make, overhead, seed, rivals)
    try:
        samples = race.run()
    except CellError as error:
        return Timed(charge=replace(error.charge, where=error.charge.where or f"{label}, timed"))
    own = median_interval(samples.own_s)
    # With what the judge adds: that is known less well where other programs run, and a time must not be too short by it.
    whole = median_interval(race.whole_s)
    if whole.high < floor.possible_s:
        text = f"{whole.middle:.3g} s a call, and the machine needs {floor.possible_s:.3g} s to move the bytes"
        return Timed(charge=Charge(Refusal.FASTER_THAN_THE_MACHINE, text, label))
    calls = len(samples.own_s) * race.count
    return Timed(tuple(_speed(label, own, name, samples, floor, calls) for name in rivals))


def _speed(label: str, own: Interval, rival: str, samples: _Samples, floor: Floor, calls: int) -> Speed:
    taken_s = samples.rivals_s[rival]
    ratio = ratio_interval(samples.own_s, taken_s)
    return Speed(
        label,
        own.middle,
        own.low,
        own.high,
        rival,
        median_interval(taken_s).middle,
        ratio.middle,
        ratio.low,
        ratio.high,
        floor.usual_s,
        calls,
    )


class _Race:
    """Rounds of one posed call."""

    def __init__(
        self,
        trial: Trial,
        label: str,
        make: Callable[[int], Values],
        overhead: Overhead,
        seed: int,
        rivals: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.trial, self.label, self.make, self.overhead, self.rivals = trial, label, make, overhead, rivals
        self.seed = seed + _SEED_OF_ROUNDS
        self.made, self.count, self.lead_in, self.read = _LEAST_CALLS, _LEAST_CALLS, 1, _LEAST_CALLS
        self.random = random.SystemRandom()
        self.late = LateReads(trial.cell)
        self.whole_s: list[float] = []

    def run(self) -> _Samples:
        """Return the samples; raises CellError for a result that is wrong."""
        self._plan()
        samples = _Samples()
        until_s = time.monotonic() + _SECONDS
        for number in range(-_WARM_UP, _MOST_ROUNDS):
            own_s, rivals_s = self._round(number)
            if number >= 0:
                samples.own_s.append(own_s)
                for name, taken_s in rivals_s.items():
                    samples.rivals_s.setdefault(name, []).append(taken_s)
            is_over = not self.trial.has_time or time.monotonic() > until_s or _is_narrow(samples)
            if number + 1 >= _LEAST_ROUNDS and is_over and not self.late.are_unsure:
                break
        if self.late.are_late:
            text = "its results are computed when they are read for the first time, and not when it is called"
            raise CellError(Charge(Refusal.LAZY_RESULT, text, self.label))
        return samples

    def _plan(self) -> None:
        """Decide how many calls make a round, from the time of one and the size of its inputs."""
        values = self.make(self.seed)
        tensors = [one for one in values.values() if isinstance(one, Tensor)]
        elements = sum(one.numel() for one in tensors)
        nbytes = max(1, sum(map(bytes_of, tensors)))
        most = int(min(_MOST_CALLS, _MOST_ELEMENTS / max(elements, 1), _MOST_BYTES / nbytes))
        call_s = self._seconds_of_call(max(most, 1))
        results = self.trial.plain(self.trial.cell.give([0])[0])
        wanted = int(_ROUND_S / call_s)
        self.lead_in = max(1, min(_MOST_LEAD_IN, int(_LEAD_IN_S / call_s)))
        self.made = self.count = max(_LEAST_CALLS, min(most, wanted))
        if self.trial.cell.device in _COPIED_ON and are_scalable(values):
            room = self.made + _room_bytes(self.trial.cell.device) // nbytes
            self.count = max(self.made, min(_MOST_CALLS, wanted, room, self.made * (1 + len(FACTORS))))
        self.read = max(_LEAST_CALLS, min(self.count, _READ_BYTES // max(1, sum(map(bytes_of, results)))))

    def _seconds_of_call(self, most: int) -> float:
        """Return about how long a call takes, from as many as take long enough to tell, each on inputs of its own."""
        count = 1
        while True:
            slots = [self.make(self.seed - 1 - index) for index in range(count)]
            self.trial.load(slots)
            every = [self.trial.run(range(count)) for _ in range(_PROBES)]
            taken_s = max(min(done.wall_s for done in every) - self.overhead.of(count), _LEAST_S)
            if count >= most or taken_s > _ROUND_S / 2:
                return taken_s / count
            count = min(4 * count, most)

    def _round(self, number: int) -> tuple[float, dict[str, float]]:
        """Return the seconds of a call of the candidate's and of each rival's."""
        inputs = self._inputs(self.seed + (number + _WARM_UP) * (self.made + _LEAD_SLOTS))
        order = self.random.sample(range(_LEAD_SLOTS, len(inputs)), self.count)
        cell = self.trial.cell
        # In every other round the contents change behind the same tensors, in the others they lie elsewhere.
        self.trial.load(inputs.made, keep=number % 2 == 0, copies=inputs.copies)
        # Calls that do not count, on inputs of their own: the processor has slept.
        lead_in = [index % _LEAD_SLOTS for index in range(self.lead_in)]
        cell.run(lead_in, is_lead_in=True)
        begun_s = self.late.used_s()
        done = self.trial.run(order)
        looked_at = sorted({self.random.randrange(self.count), self.count - 1})
        which = self._some(self.count - 1) if number % _READ_EVERY == 0 else []
        every = [self.trial.plain(one) for one in self.late.read(which, begun_s)] if which else []
        found = [self.trial.plain(one) for one in cell.give(looked_at)]
        own_s = max(done.wall_s - self.overhead.of(self.count), _LEAST_PART * done.wall_s) / self.count
        self.whole_s.append(done.wall_s / self.count)
        if changed := cell.changed_inputs():
            name = Refusal.INPUT_MODIFIED if changed == "inputs" else Refusal.WRITES_OUTSIDE
            raise CellError(Charge(name, f"{changed} of a timed call have other values after it", self.label))
        for at, results in zip(looked_at, found, strict=True):
            self._hold(inputs, order, at, results)
        rivals_s, eager = self._rivals(inputs, lead_in)
        for at, results in zip(which, every, strict=True):
            # A look at each, for what is far off: then it is compared as the others are.
            if not is_near(results, eager[order[at] - _LEAD_SLOTS]):
                self._hold(inputs, order, at, results)
        return own_s, rivals_s

    def _inputs(self, begin: int) -> Inputs:
        """Return the inputs of a round, those for the calls that do not count first."""
        made = [self.make(begin + index) for index in range(_LEAD_SLOTS + self.made)]
        more = self.count - self.made
        pairs = self.random.sample([(source, one) for source in range(_LEAD_SLOTS, len(made)) for one in FACTORS], more)
        return Inputs(made, pairs)

    def _some(self, *those: int) -> list[int]:
        """Return the calls of a round whose results are read together, by their places: `those`, and others by chance."""
        others = [at for at in range(self.count) if at not in those]
        return sorted({*those, *self.random.sample(others, max(0, min(len(others), self.read - len(those))))})

    def _others(self, at: int) -> list[int]:
        return [place for place in self._some(at, self.count - 1) if place != at]

    def _rivals(self, inputs: Inputs, lead_in: Sequence[int]) -> tuple[dict[str, float], list[list[Tensor]]]:
        """Return the seconds of a call of each rival's, and the reference's results for the inputs that count."""
        device = self.trial.cell.device
        here = Inputs([on_device(values, device) for values in inputs.made], inputs.copies)
        calls = [self.trial.arguments(here[number]) for number in range(len(here))]
        before = [calls[index] for index in lead_in]
        taken_s: dict[str, float] = {}
        eager: list[Any] = []
        for name in self.random.sample(list(self.rivals), len(self.rivals)):
            taken_s[name], results = time_here(self.rivals[name], calls[_LEAD_SLOTS:], before, device)
            eager = results if name == "eager" else eager
        return taken_s, [tensors_of(call) for call in eager]

    def _hold(self, inputs: Inputs, order: Sequence[int], at: int, found: list[Tensor]) -> None:
        """Raise CellError if the results of a timed call are wrong."""
        values = inputs[order[at]]
        expected = self.trial.expected(values)
        if (wrong := self.trial.wrong(found, expected)) is None:
            return
        where = f"{self.label}, timed call {at + 1} of {self.count}"
        others = [self.trial.plain(one) for one in self.trial.cell.give(self._others(at))]
        if not isinstance(wrong, Charge) and any(same_numbers(found, one) for one in others):
            is_last = self.trial.wrong(found, self.trial.expected(inputs[order[-1]])) is None
            name = Refusal.OVERWRITTEN_RESULT if is_last else Refusal.CACHED_RESULT
            text = "later calls write to an earlier result" if is_last else "it returns another call's result"
            raise CellError(Charge(name, f"{text}; {wrong}", where))
        charge = charge_for(self.trial, values, found, expected, wrong, where=where, index=at)
        by_chance = (Refusal.WRONG_VALUES, Refusal.LOW_PRECISION, Refusal.NOT_DETERMINISTIC)
        raise CellError(replace(charge, refusal=Refusal.DIFFERS_WHEN_TIMED) if charge.refusal in by_chance else charge)


def _room_bytes(device: str) -> int:
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else _COPIED_BYTES / _COPIED_PART
    return int(min(_COPIED_BYTES, free * _COPIED_PART))


def _is_narrow(samples: _Samples) -> bool:
    if len(samples.own_s) < 3 * _LEAST_ROUNDS:
        return False
    return all(ratio_interval(samples.own_s, one).half_width < _NARROW for one in samples.rivals_s.values())
