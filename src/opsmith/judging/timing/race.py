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
from statistics import median
from typing import Any

from torch import Tensor

from opsmith.benchmark.statistics import Interval, median_interval, ratio_interval
from opsmith.judging.cell import Batch, CellError
from opsmith.judging.diagnosis import are_about, charge_for, charge_for_another_call, same_numbers
from opsmith.judging.other_memory import SpreadError
from opsmith.judging.own_memory import charge_for_views, views_in
from opsmith.judging.parts import InParts
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Speed
from opsmith.judging.scaled import FACTORS, Inputs
from opsmith.judging.tasks.trees import tensors_of
from opsmith.judging.timing.clock import CallTime, Overhead, time_here
from opsmith.judging.timing.floor import Floor
from opsmith.judging.timing.late_reads import LateReads
from opsmith.judging.timing.round_size import bytes_of_call, size_of_rounds
from opsmith.judging.trial import Trial, Values, charge_for_changes
from opsmith.subject.oracle import Expected

__all__ = ["Timed", "time_candidate"]

_WARM_UP, _LEAST_ROUNDS, _MOST_ROUNDS = 2, 5, 60
# One posed call is timed for so long, where that is enough for the least number of rounds.
_SECONDS = 6.0
# What the judge adds is told where it is more than this part of a call's time, and so is work that threads have shared.
_TOLD_PART = 0.1
# The interval of the ratio is narrow enough.
_NARROW = 0.01
# Where its process has to be asked for results, they are read twice, and in a part of the rounds: in which ones is chance,
# after the calls.
_READ_PART = 0.5
_SEED_OF_ROUNDS = 1 << 20
# When a thread has had its time.
_LATER_S = 0.1


@dataclass(frozen=True)
class Timed:
    """What came of timing one posed call: a speed for each rival, or why there is none."""

    speeds: tuple[Speed, ...] = ()
    charge: Charge | None = None
    note: str = ""


@dataclass
class _Samples:
    """Times of a call by rounds: the candidate's, and in seconds each rival's."""

    calls: list[CallTime] = field(default_factory=list)
    rivals_s: dict[str, list[float]] = field(default_factory=dict)

    @property
    def own_s(self) -> list[float]:
        """The candidate's seconds."""
        return [one.own_s for one in self.calls]

    @property
    def left_s(self) -> list[float]:
        """What of the judge's is in these."""
        return [one.left_s for one in self.calls]


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
    try:
        race = _Race(trial, label, make, overhead, seed, rivals)
        samples = race.run()
    except CellError as error:
        return Timed(charge=replace(error.charge, where=error.charge.where or f"{label}, timed"))
    except SpreadError as error:
        return Timed(note=f"{label} is not timed: what it returns has to be there at the end of a call, and {error}")
    own = median_interval(samples.own_s)
    # With what the judge adds: that is known less well where other programs run, and a time must not be too short by it.
    whole = median_interval([one.whole_s for one in samples.calls])
    if whole.high < floor.possible_s:
        text = f"{whole.middle:.3g} s a call, and the machine needs {floor.possible_s:.3g} s to move the bytes"
        return Timed(charge=Charge(Refusal.FASTER_THAN_THE_MACHINE, text, label))
    calls = len(samples.own_s) * race.size.count
    speeds = tuple(_speed(label, own, name, samples, floor, calls) for name in rivals)
    return Timed(speeds, note=_note_of(label, samples, speeds))


def _speed(label: str, own: Interval, rival: str, samples: _Samples, floor: Floor, calls: int) -> Speed:
    taken_s = samples.rivals_s[rival]
    timed = Speed(label, own.middle, own.low, own.high, rival, median_interval(taken_s).middle, limit_s=floor.usual_s)
    if median(samples.left_s) > median_interval(taken_s).middle:
        return replace(timed, calls=calls)  # what would be compared is the judge's own time
    # With what is the judge's in both, or an equal rival would seem faster.
    with_left_s = [one + left for one, left in zip(taken_s, samples.left_s, strict=True)]
    ratio = ratio_interval(samples.own_s, with_left_s)
    return replace(timed, ratio=ratio.middle, ratio_low=ratio.low, ratio_high=ratio.high, calls=calls)


def _note_of(label: str, samples: _Samples, speeds: Sequence[Speed]) -> str:
    """Return what is to be told of a time: of the judge's part, and of work that threads have shared."""
    if (shared := median(one.shared for one in samples.calls)) > _TOLD_PART:
        text = f"{label}: it uses more processors than it was given threads"
        return f"{text}, and {shared:.0%} of its time is what it would have taken longer with as many"
    part = median(samples.left_s) / median(samples.own_s)
    if part < _TOLD_PART:
        return ""
    what = f"{label}: {part:.0%} of the candidate's time is what the judge adds, such as reading the inputs"
    if any(one.ratio is None for one in speeds):
        return f"{what}: that is more than the reference takes, and no speedup is given"
    return f"{what}; as much is added to the reference's for the speedup"


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
        self.size = size_of_rounds(trial, make, self.seed, overhead)
        self.random = random.SystemRandom()
        self.late = LateReads(trial.cell)

    def run(self) -> _Samples:
        """Return the samples; raises CellError for a result that is wrong."""
        samples = _Samples()
        until_s = time.monotonic() + _SECONDS
        for number in range(-_WARM_UP, _MOST_ROUNDS):
            call, rivals_s = self._round(number)
            if number >= 0:
                samples.calls.append(call)
                for name, taken_s in rivals_s.items():
                    samples.rivals_s.setdefault(name, []).append(taken_s)
            is_over = not self.trial.has_time or time.monotonic() > until_s or _is_narrow(samples)
            if number + 1 >= _LEAST_ROUNDS and is_over and not self.late.are_unsure:
                break
        if self.late.are_late:
            text = "its results are computed when they are read for the first time, and not when it is called"
            raise CellError(Charge(Refusal.LAZY_RESULT, text, self.label))
        return samples

    def _round(self, number: int) -> tuple[CallTime, dict[str, float]]:
        """Return the time of a call of the candidate's, and the seconds of each rival's."""
        inputs = self._inputs(self.seed + (number + _WARM_UP) * (self.size.made + self.size.lead))
        order = self.random.sample(range(self.size.lead, len(inputs)), self.size.count)
        cell = self.trial.cell
        # In every other round the contents change behind the same tensors, in the others they lie elsewhere.
        self.trial.load(inputs.made, keep=number % 2 == 0, copies=inputs.copies, hidden_from=self.size.lead)
        # Calls that do not count, on inputs of their own: the processor has slept.
        lead_in = [index % self.size.lead for index in range(self.size.lead_in)]
        # On a GPU who comes first is chance; on a CPU what the candidate is given must not be read before.
        taken = None if cell.is_exact or self.random.random() < 0.5 else self._rivals(inputs, lead_in)
        cell.run(lead_in, is_lead_in=True)
        begun_s = self.late.used_s()
        done = self.trial.run(order, is_timed=True)
        if cell.is_exact and (changed := cell.changed_inputs()):
            raise CellError(charge_for_changes(changed, "a timed call"))
        looked_at = {self.random.randrange(self.size.count), self.size.count - 1}
        which = self._some(self.size.count - 1) if cell.is_exact or self._is_read(number) else []
        given: dict[int, list[Tensor]] = {}
        if not cell.is_exact:
            every = self.late.read(which, begun_s) if which else []
            given |= {at: self.trial.plain(one) for at, one in zip(which, every, strict=True)}
            last = sorted(looked_at)
            given |= {at: self.trial.plain(one) for at, one in zip(last, cell.give(last), strict=True)}
            if changed := cell.changed_inputs():
                raise CellError(charge_for_changes(changed, "a timed call"))
            cell.release_inputs()
        rivals_s, eager = self._rivals(inputs, lead_in) if taken is None else taken
        for at in sorted({*which, *looked_at}):
            usual = eager[order[at] - self.size.lead]
            found = given[at] if at in given else self._seen(done, at, usual)
            # A look at each, for what is far off: then it is compared as the others are.
            if at in looked_at or not are_about(found, usual):
                self._hold(inputs, order, done, at, found)
        if cell.is_exact:  # results have been read, those of the last call behind the others
            right = views_in(eager[order[-1] - self.size.lead], self.trial.arguments(inputs[order[-1]]))
            if (charge := charge_for_views(cell, done, self.size.count - 1, found, right)) is not None:
                raise CellError(charge)
            cell.process.hold_still()
        read_bytes = sum(map(bytes_of_call, inputs.made)) if cell.is_exact else 0
        return self.overhead.call_of(done, self.size.count, read_bytes), rivals_s

    def _is_read(self, number: int) -> bool:
        """Whether results of a round are read twice; there are enough such rounds when no more are made."""
        left = max(1, _LEAST_ROUNDS - number)
        return self.late.missing >= left or self.random.random() < _READ_PART

    def _seen(self, done: Batch, at: int, usual: list[Tensor]) -> list[Tensor]:
        """Return the results of a call as they are in memory at its end, or as they are given if they do not lie there."""
        found = self.trial.cell.seen(done, at, usual)
        if found is None:
            found = self.trial.plain(self.trial.cell.give([at])[0])
            if are_about(found, usual):
                text = "its results are not where its process says that they are"
                raise CellError(Charge(Refusal.REACHES_OUTSIDE, text, self.label))
        return found

    def _inputs(self, begin: int) -> Inputs:
        """Return the inputs of a round, those for the calls that do not count first."""
        made = [self.make(begin + index) for index in range(self.size.lead + self.size.made)]
        more = self.size.count - self.size.made
        pairs = self.random.sample(
            [(source, one) for source in range(self.size.lead, len(made)) for one in FACTORS], more
        )
        return Inputs(made, pairs)

    def _some(self, *those: int) -> list[int]:
        """Return the calls of a round whose results are read together, by their places: `those`, and others by chance."""
        others = [at for at in range(self.size.count) if at not in those]
        return sorted({*those, *self.random.sample(others, max(0, min(len(others), self.size.read - len(those))))})

    def _others(self, at: int) -> list[int]:
        return [place for place in self._some(at, self.size.count - 1) if place != at]

    def _rivals(self, inputs: Inputs, lead_in: Sequence[int]) -> tuple[dict[str, float], list[list[Tensor]]]:
        """Return the seconds of a call of each rival's, and the reference's results for the inputs that count."""
        if not self.trial.cell.is_exact:
            self.trial.cell.process.stand_still()  # its threads must not disturb what is timed here
        device = self.trial.cell.device
        calls = [self.trial.arguments(inputs[number]) for number in range(len(inputs))]
        before = [calls[index] for index in lead_in]
        taken_s: dict[str, float] = {}
        eager: list[Any] = []
        for name in self.random.sample(list(self.rivals), len(self.rivals)):
            taken_s[name], results = time_here(self.rivals[name], calls[self.size.lead :], before, device)
            eager = results if name == "eager" else eager
        return taken_s, [tensors_of(call) for call in eager]

    def _hold(self, inputs: Inputs, order: Sequence[int], done: Batch, at: int, found: list[Tensor]) -> None:
        """Raise CellError if the results of a timed call are wrong."""
        values = inputs[order[at]]
        expected = self.trial.expected(values)
        if (wrong := self.trial.wrong(found, expected)) is None:
            return
        where = f"{self.label}, timed call {at + 1} of {self.size.count}"
        if self.trial.cell.is_exact and (name := self._comes_later(done, at, found, expected)) is not None:
            raise CellError(Charge(name, f"its result is not there when it answers, and right later; {wrong}", where))
        others = [self.trial.plain(one) for one in self.trial.cell.give(self._others(at))]
        last = inputs[order[-1]]
        if not isinstance(wrong, Charge) and any(same_numbers(found, one) for one in others):
            raise CellError(charge_for_another_call(self.trial, found, last, wrong, where))
        charge = charge_for(self.trial, values, found, expected, wrong, where=where, index=at)
        by_chance = (Refusal.WRONG_VALUES, Refusal.LOW_PRECISION, Refusal.NOT_DETERMINISTIC)
        raise CellError(replace(charge, refusal=Refusal.DIFFERS_WHEN_TIMED) if charge.refusal in by_chance else charge)

    def _comes_later(self, done: Batch, at: int, found: list[Tensor], expected: Expected | InParts) -> Refusal | None:
        """Return the name of what makes a result right that was wrong at the end of its call."""
        cell = self.trial.cell
        cell.process.go_on_for(_LATER_S)
        later = cell.seen(done, at, found)
        if later is not None and self.trial.wrong(later, expected) is None:
            return Refusal.WORKS_AFTER_THE_END
        is_right = self.trial.wrong(self.trial.plain(cell.give([at])[0]), expected) is None
        return Refusal.LAZY_RESULT if is_right else None


def _is_narrow(samples: _Samples) -> bool:
    if len(samples.own_s) < 3 * _LEAST_ROUNDS:
        return False
    return all(ratio_interval(samples.own_s, one).half_width < _NARROW for one in samples.rivals_s.values())
