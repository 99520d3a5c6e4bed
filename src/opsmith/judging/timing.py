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

from torch import Tensor

from opsmith.benchmark.statistics import Interval, median_interval, ratio_interval
from opsmith.judging.cell import CellError
from opsmith.judging.clock import Overhead, time_here
from opsmith.judging.diagnosis import charge_for, same_numbers
from opsmith.judging.limits import Floor
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Speed
from opsmith.judging.trial import Trial, Values, on_device

__all__ = ["Timed", "time_candidate"]

# A round is about so long, has at most so many calls, and inputs of so many elements and bytes.
_ROUND_S, _MOST_CALLS, _MOST_ELEMENTS, _MOST_BYTES = 0.004, 256, 1 << 21, 512 << 20
# A round begins with calls that do not count: about so long, so many at most, on so many inputs of their own.
_LEAD_IN_S, _MOST_LEAD_IN, _LEAD_SLOTS = 0.001, 256, 2
_LEAST_CALLS, _WARM_UP, _LEAST_ROUNDS, _MOST_ROUNDS = 2, 2, 5, 60
# One posed call is timed for so long, where that is enough for the least number of rounds.
_SECONDS = 6.0
# The interval of the ratio is narrow enough.
_NARROW = 0.01
# Results are asked for twice in every so many rounds, and believed to be late where those were so many. The first time may
# take so much of the calls' time longer, and so many seconds.
_TWICE_EVERY, _LEAST_LATE, _LATE_PART, _LATE_S = 2, 3, 0.5, 0.001
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
    if own.high < floor.possible_s:
        text = f"{own.middle:.3g} s a call, and the machine needs {floor.possible_s:.3g} s to move the bytes"
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
        self.count, self.lead_in = _LEAST_CALLS, 1
        self.random = random.SystemRandom()
        self.late: list[bool] = []

    def run(self) -> _Samples:
        """Return the samples; raises CellError for a result that is wrong."""
        self.count = self._calls_a_round()
        samples = _Samples()
        until_s = time.monotonic() + _SECONDS
        for number in range(-_WARM_UP, _MOST_ROUNDS):
            own_s, rivals_s = self._round(number)
            if number >= 0:
                samples.own_s.append(own_s)
                for name, taken_s in rivals_s.items():
                    samples.rivals_s.setdefault(name, []).append(taken_s)
            is_over = not self.trial.has_time or time.monotonic() > until_s or _is_narrow(samples)
            if number + 1 >= _LEAST_ROUNDS and is_over:
                break
        self._refuse_late()
        return samples

    def _calls_a_round(self) -> int:
        """Return how many calls make a round, from the time of one and the size of its inputs."""
        values = self.make(self.seed)
        tensors = [one for one in values.values() if isinstance(one, Tensor)]
        elements = sum(one.numel() for one in tensors)
        nbytes = sum(one.numel() * one.element_size() for one in tensors)
        self.trial.cell.load([self.trial.arguments(values)])
        taken_s = []
        for _ in range(3):
            done = self.trial.cell.run([0])
            if done.error is not None:
                raise CellError(done.error)
            taken_s.append(max(done.wall_s - self.overhead.of(1), 1e-7))
        by_time = _ROUND_S / min(taken_s)
        self.lead_in = max(1, min(_MOST_LEAD_IN, int(_LEAD_IN_S / min(taken_s))))
        most = min(by_time, _MOST_CALLS, _MOST_ELEMENTS / max(elements, 1), _MOST_BYTES / max(nbytes, 1))
        return max(_LEAST_CALLS, int(most))

    def _round(self, number: int) -> tuple[float, dict[str, float]]:
        """Return the seconds of a call of the candidate's and of each rival's."""
        begin = self.seed + (number + _WARM_UP) * (self.count + _LEAD_SLOTS)
        slots = [self.make(begin + index) for index in range(self.count + _LEAD_SLOTS)]
        order = self.random.sample(range(self.count), self.count)
        cell = self.trial.cell
        # In every other round the contents change behind the same tensors, in the others they lie elsewhere.
        cell.load([self.trial.arguments(values) for values in slots], keep=number % 2 == 0)
        # Calls that do not count, on inputs of their own: the processor has slept.
        lead_in = [self.count + index % _LEAD_SLOTS for index in range(self.lead_in)]
        cell.run(lead_in, is_lead_in=True)
        done = cell.run(order)
        if done.error is not None:
            raise CellError(done.error)
        looked_at = sorted({self.random.randrange(self.count), self.count - 1})
        found = [self.trial.plain(one) for one in cell.give(looked_at)]
        own_s = max(done.wall_s - self.overhead.of(self.count), 0.0) / self.count
        if number % _TWICE_EVERY == 0:
            self._look_late(own_s)
        if changed := cell.changed_inputs():
            name = Refusal.INPUT_MODIFIED if changed == "inputs" else Refusal.WRITES_OUTSIDE
            raise CellError(Charge(name, f"{changed} of a timed call have other values after it", self.label))
        for at, results in zip(looked_at, found, strict=True):
            self._hold(slots, order, at, results)
        return own_s, self._rivals(slots, lead_in)

    def _rivals(self, slots: Sequence[Values], lead_in: Sequence[int]) -> dict[str, float]:
        device = self.trial.cell.device
        calls = [self.trial.arguments(on_device(values, device)) for values in slots]
        before = [calls[index] for index in lead_in]
        names = self.random.sample(list(self.rivals), len(self.rivals))
        return {name: time_here(self.rivals[name], calls[: self.count], before, device) for name in names}

    def _look_late(self, own_s: float) -> None:
        """Note how much longer it takes to read all results the first time than the second."""
        first_s, second_s = self._give_all(), self._give_all()
        is_late = first_s - second_s > max(_LATE_S, _LATE_PART * max(own_s * self.count, second_s))
        self.late.append(is_late)

    def _refuse_late(self) -> None:
        """Raise CellError where results are always computed when they are asked for; other programs only delay some."""
        if len(self.late) >= _LEAST_LATE and all(self.late):
            text = "its results are computed when they are read for the first time, and not when it is called"
            raise CellError(Charge(Refusal.LAZY_RESULT, text, self.label))

    def _give_all(self) -> float:
        begun = time.perf_counter()
        self.trial.cell.give(range(self.count))
        return time.perf_counter() - begun

    def _hold(self, slots: Sequence[Values], order: Sequence[int], at: int, found: list[Tensor]) -> None:
        """Raise CellError if the results of a timed call are wrong."""
        values = slots[order[at]]
        expected = self.trial.expected(values)
        if (wrong := self.trial.wrong(found, expected)) is None:
            return
        where = f"{self.label}, timed call {at + 1} of {self.count}"
        every = [self.trial.plain(one) for one in self.trial.cell.give(range(self.count))]
        others = [one for index, one in enumerate(every) if index != at]
        if not isinstance(wrong, Charge) and any(same_numbers(found, one) for one in others):
            is_last = self.trial.wrong(found, self.trial.expected(slots[order[-1]])) is None
            name = Refusal.OVERWRITTEN_RESULT if is_last else Refusal.CACHED_RESULT
            text = "later calls write to an earlier result" if is_last else "it returns another call's result"
            raise CellError(Charge(name, f"{text}; {wrong}", where))
        charge = charge_for(self.trial, values, found, expected, wrong, where=where, index=at)
        by_chance = (Refusal.WRONG_VALUES, Refusal.LOW_PRECISION, Refusal.NOT_DETERMINISTIC)
        raise CellError(replace(charge, refusal=Refusal.DIFFERS_WHEN_TIMED) if charge.refusal in by_chance else charge)


def _is_narrow(samples: _Samples) -> bool:
    if len(samples.own_s) < 3 * _LEAST_ROUNDS:
        return False
    return all(ratio_interval(samples.own_s, one).half_width < _NARROW for one in samples.rivals_s.values())
