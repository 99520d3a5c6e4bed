"""Times one size in one phase: checks all results, times the competitors in turn, and checks the results again."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from opsmith.benchmark.agree import Judge
from opsmith.benchmark.calls import Contender, Values, gradients, prepare
from opsmith.benchmark.clock import Call, Clock
from opsmith.benchmark.competitors import Competitor, Phase
from opsmith.benchmark.compiled import Compiler, short_text
from opsmith.benchmark.deadline import Deadline, OutOfTime, time_limit
from opsmith.benchmark.figures import Figures
from opsmith.benchmark.measure import Limits, Measurement, TooSlowError, measure
from opsmith.benchmark.memory import peak_bytes
from opsmith.benchmark.result import Timing
from opsmith.benchmark.work import work_of
from opsmith.benchmark.workload import Workload
from opsmith.subject.subject import Subject

__all__ = ["Job", "JobContext", "JobRun"]

# A job is measured for so long at least, however long getting ready for it took; and the last one may be late by so much.
_LEAST_S, _GRACE_S = 0.4, 2.0
# Of what is left of its time when all are ready, this part is for the samples; the rest is for evaluating them.
_MEASURED_PART = 0.85
# Making sets of inputs ready takes this part of the time at most; there are never more than so many sets.
_SETS_PART, _MOST_SETS = 0.3, 512


@dataclass(frozen=True, eq=False)  # one is what it is: its inputs cannot be hashed
class Job:
    """One size, element type and phase."""

    workload: Workload
    phase: Phase

    def __str__(self) -> str:
        return f"{self.workload.dtype}, {self.workload.label}, {self.phase}"


@dataclass(frozen=True)
class JobContext:
    """What all jobs of a benchmark share. No job begins after `last`."""

    subject: Subject
    competitors: tuple[Competitor, ...]
    clock: Clock
    compiler: Compiler
    figures: Figures
    limits: Limits
    seed: int
    last: Deadline


class JobRun:
    """The run of one job. `probes` are calls of what was timed, one each, to be looked at later."""

    def __init__(self, context: JobContext, job: Job, seconds: float, tell: Callable[[str], Any]) -> None:
        self._context, self._job, self._tell = context, job, tell
        self._share = Deadline(seconds)
        self._failed: dict[str, Timing] = {}
        self._prepare_s: dict[str, float] = {}
        self.probes: dict[str, Call] = {}

    def run(self) -> list[Timing]:
        """Return a timing of each competitor, in their order; of those that cannot be timed too."""
        timed: dict[str, Timing] = {}
        try:
            if self._context.last.left_s == 0.0:
                raise OutOfTime
            with time_limit(self._context.last.left_s + _GRACE_S), _warnings_ignored():
                timed = self._run()
        except OutOfTime:
            self._fail_all(f"not timed: there was no time left for it ({_MORE})")
        except Exception as error:
            # The reference itself does not run with these inputs, so no competitor can be judged.
            self._fail_all(f"failed: the reference raises {short_text(error)}")
        found = {**self._failed, **timed}
        return [found[one.name] for one in self._context.competitors if one.name in found]

    def _run(self) -> dict[str, Timing]:
        subject, job, figures = self._context.subject, self._job, self._context.figures
        self._tell("getting ready")
        first = job.workload.inputs(0)
        work = work_of(subject, job.phase, first)
        judge = Judge(subject, job.workload, job.phase, first)
        judge.learn()
        sets = job.workload.sets_for(work.read, self._most_sets(first))
        inputs = job.workload.input_sets(first, sets)
        # On a GPU the cache is emptied before each call that is timed.
        is_cold = job.workload.device != "cpu" or job.workload.is_out_of_cache(work.read, sets)
        contenders = self._prepare(judge, inputs)
        if not contenders:
            return {}
        # Made anew, so that its results lie elsewhere in memory than those of the first: that is noise, too.
        control = self._made(contenders[0].competitor, inputs)
        measured = self._measure(contenders, control)
        if measured is None:
            return {}
        self._tell("comparing results again")
        timings = {}
        gc.collect()
        for contender in contenders:
            name = contender.competitor.name
            if name not in measured.series:
                continue
            timing = figures.timing(job.workload, job.phase, name, measured, work, is_cold=is_cold)
            timings[name] = replace(
                timing,
                peak_bytes=self._peak(contender),
                prepare_s=self._prepare_s[name],
                error=self._wrong_after(judge, contender),
            )
            self.probes[name] = contender.turns.calls[0]
        return figures.believed(timings, job.workload, work, is_cold=is_cold)

    def _most_sets(self, values: Values) -> int:
        """Return how many sets there is time for: a backward is made ready by a call with each, by every competitor."""
        if self._job.phase == "forward":
            return _MOST_SETS
        started = time.perf_counter()
        gradients(self._context.subject, self._context.competitors[1].function, values)
        call_s = (time.perf_counter() - started) * (len(self._context.competitors) + 1)
        return int(self._share.left_s * _SETS_PART / call_s)

    def _prepare(self, judge: Judge, inputs: Sequence[Values]) -> list[Contender]:
        contenders = []
        for competitor in self._context.competitors:
            if self._job.phase not in competitor.phases:
                continue
            self._tell(f"trying {competitor.name}")
            before = self._share.left_s
            try:
                contender = self._made(competitor, inputs)
                if contender is None:
                    continue
                wrong = self._disagreement(judge, contender)
            except Exception as error:
                self._fail(competitor.name, f"failed: {short_text(error)}")
                continue
            self._prepare_s.setdefault(competitor.name, before - self._share.left_s)
            if wrong is not None:
                self._fail(competitor.name, f"wrong result, not timed: {wrong}")
                continue
            contenders.append(contender)
        return contenders

    def _made(self, competitor: Competitor, inputs: Sequence[Values]) -> Contender | None:
        """Return a competitor that is ready, or None for one that could not be compiled, which is noted."""
        function = competitor.function
        if competitor.kind == "compiled":
            with_gradient = self._job.phase != "forward"
            found = self._context.compiler.compile(competitor, self._job.workload, with_gradient=with_gradient)
            if found.function is None:
                self._fail(competitor.name, found.error)
                return None
            function, self._prepare_s[competitor.name] = found.function, found.seconds
        with self._gradients():
            return prepare(self._context.subject, competitor, function, self._job.phase, inputs)

    def _measure(self, contenders: list[Contender], control: Contender | None) -> Measurement | None:
        """Return the measurement; competitors too slow for the remaining time are left out, the slowest first."""
        chosen = {contender.competitor.name: contender.turns for contender in contenders}
        self._tell(f"timing {', '.join(chosen)}")
        while True:
            seconds = min(self._context.limits.seconds, max(self._share.left_s * _MEASURED_PART, _LEAST_S))
            limits = replace(self._context.limits, seconds=seconds)
            try:
                with self._gradients(), _collected():
                    return measure(
                        chosen,
                        self._context.clock,
                        limits,
                        control=None if control is None else control.turns,
                        seed=self._context.seed,
                    )
            except TooSlowError as error:
                rivals = [name for name in chosen if name != contenders[0].competitor.name]
                slowest = max(rivals, key=error.round_s.__getitem__, default="")
                if not slowest or error.round_s[slowest] < max(error.round_s.values()):
                    self._fail_all(f"not timed: {error}, but there were {seconds:.2g} s for it ({_MORE})")
                    return None
                del chosen[slowest]
                self._fail(slowest, f"not timed: {error}, most of it this competitor's ({_MORE})")

    def _disagreement(self, judge: Judge, contender: Contender) -> str | None:
        with self._gradients():
            return judge.disagreement(contender.results())

    def _wrong_after(self, judge: Judge, contender: Contender) -> str:
        try:
            wrong = self._disagreement(judge, contender)
        except Exception as error:
            return f"failed after timing: {short_text(error)}"
        return "" if wrong is None else f"wrong result after timing: {wrong}"

    def _peak(self, contender: Contender) -> int | None:
        with self._gradients():
            return peak_bytes(contender.turns.calls[0], self._job.workload.device)

    def _gradients(self) -> torch.set_grad_enabled:
        return torch.set_grad_enabled(self._job.phase != "forward")

    def _fail(self, name: str, error: str) -> None:
        workload = self._job.workload
        self._failed[name] = Timing(workload.label, workload.dtype, self._job.phase, name, error=error)

    def _fail_all(self, error: str) -> None:
        for competitor in self._context.competitors:
            if self._job.phase in competitor.phases and competitor.name not in self._failed:
                self._fail(competitor.name, error)


_MORE = "--seconds gives more, --size and --against ask for less"


@contextmanager
def _warnings_ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _collected() -> Iterator[None]:
    """Keep Python's collector of cycles from running while something is timed."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
