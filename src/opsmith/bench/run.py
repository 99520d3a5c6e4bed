"""How an operator is benchmarked: every size and phase in turn, right before it is fast, within a budget of time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from opsmith.bench.ceilings import Ceilings, ceilings
from opsmith.bench.clock import Call, Clock, clock_for
from opsmith.bench.competitors import PHASES, Competitor, Phase, competitors, differentiable, prepare
from opsmith.bench.machine import load_warning, this_machine
from opsmith.bench.measure import Limits, Measurement, measure
from opsmith.bench.memory import peak_bytes
from opsmith.bench.progress import Progress, Watch
from opsmith.bench.result import BenchReport, Timing
from opsmith.bench.work import Work, work_of
from opsmith.bench.workload import Workload, workloads
from opsmith.check.oracle import compare, expect
from opsmith.check.subject import Subject

__all__ = ["BenchOptions", "run_bench"]

# A copy's own noise; a figure beyond that of the machine's limit is a mistake of the measurement.
_ABOVE_LIMIT = 1.15
# Making a competitor for one size may take this part of what is left of the budget.
_COSTLY_PART = 0.5


@dataclass(frozen=True)
class BenchOptions:
    """What is timed: the phases, competitors by name, element types, sizes by name, and how long all may take."""

    phases: tuple[Phase, ...] = PHASES
    competitors: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    sizes: tuple[Mapping[str, int], ...] = ()
    seconds: float = 60.0
    limits: Limits = field(default_factory=Limits)
    seed: int = 0


@dataclass(frozen=True)
class _Job:
    workload: Workload
    phase: Phase


def run_bench(
    subject: Subject, device: str, options: BenchOptions | None = None, watch: Watch | None = None
) -> BenchReport:
    """Time an operator on a device; `watch` is told what is timed next. Raises ArgumentError for sizes that do not fit."""
    options = options or BenchOptions()
    watch = watch or (lambda progress: None)
    started = time.perf_counter()
    notes = [text for text in [load_warning(device)] if text]
    watch(Progress(subject.name, "the machine's limits"))
    limits = ceilings(device)
    jobs = _jobs(subject, device, options)
    timings: list[Timing] = []
    costs: dict[str, float] = {}
    clock = clock_for(device)
    for index, job in enumerate(jobs):
        left = options.seconds - (time.perf_counter() - started)
        share = max(left, 0.0) / (len(jobs) - index)
        where = Progress(subject.name, "", index, len(jobs), tuple(timings))
        timings += _Bench(subject, job, options, limits, clock, share, costs, _teller(watch, where, job)).run()
    return BenchReport(
        subject.name,
        this_machine(device),
        tuple(timings),
        options.seed,
        time.perf_counter() - started,
        tuple(notes),
        {"copy_bytes_s": limits.copy_bytes_s, "matmul_flops_s": limits.matmul_flops_s, "launch_s": limits.launch_s},
    )


def _jobs(subject: Subject, device: str, options: BenchOptions) -> list[_Job]:
    dtypes = options.dtypes or _usual_dtypes(subject, device)
    jobs = []
    for workload in workloads(subject, device, dtypes, options.sizes):
        has_gradient = bool(differentiable(subject, workload.inputs(0)))
        jobs += [_Job(workload, phase) for phase in options.phases if phase == "forward" or has_gradient]
    return jobs


def _usual_dtypes(subject: Subject, device: str) -> tuple[str, ...]:
    """Return what people use on a device: float32, on a GPU bfloat16 too; where an operator has neither, its first."""
    known = [item.get("T", "") for item in subject.dtypes]
    usual = ("float32", "bfloat16") if device == "cuda" else ("float32",)
    return tuple(name for name in usual if name in known) or (known[0] if known else "",)


def _teller(watch: Watch, where: Progress, job: _Job) -> Callable[[str], Any]:
    place = f"{job.workload.dtype}, {job.workload.label}, {job.phase}"
    return lambda doing: watch(replace(where, doing=f"{place}: {doing}"))


class _Bench:
    """One size at one phase: everything that is timed against each other in one run."""

    def __init__(
        self,
        subject: Subject,
        job: _Job,
        options: BenchOptions,
        limits: Ceilings,
        clock: Clock,
        seconds: float,
        costs: dict[str, float],
        tell: Callable[[str], Any],
    ) -> None:
        self.subject, self.job, self.options, self.limits, self.clock = subject, job, options, limits, clock
        self.seconds, self.costs, self.tell = seconds, costs, tell
        self.inputs = [job.workload.inputs(index) for index in range(job.workload.sets)]
        self.failed: list[Timing] = []

    def run(self) -> list[Timing]:
        """Return the timings, of competitors that cannot be timed too."""
        started = time.perf_counter()
        calls, prepared = self._prepare(started)
        if not calls:
            return self.failed
        left = max(0.3, self.seconds - (time.perf_counter() - started))
        limits = replace(self.options.limits, seconds=min(self.options.limits.seconds, left))
        self.tell(f"timing {', '.join(calls)}")
        with self._gradients():
            measured = measure(calls, self.clock, limits, seed=self.options.seed)
            wrong = {name: self._disagreement(name, of[0]) for name, of in calls.items()}
            peaks = {name: peak_bytes(of[0], self.job.workload.device) for name, of in calls.items()}
        work = work_of(self.subject, self.job.phase, self.inputs[0])
        return [
            self._timing(name, measured, work, prepared[name], peaks[name], wrong[name]) for name in calls
        ] + self.failed

    def _prepare(self, started: float) -> tuple[dict[str, list[Call]], dict[str, float]]:
        calls: dict[str, list[Call]] = {}
        seconds: dict[str, float] = {}
        for competitor in competitors(self.subject, self.job.workload.device, self.options.competitors):
            if self.job.phase not in competitor.phases:
                continue
            left = self.seconds - (time.perf_counter() - started)
            if competitor.is_costly and self.costs.get(competitor.name, 0.0) * 0.5 > max(left, 0.0) and calls:
                self._fail(
                    competitor.name, "not timed: compiling it takes longer than the time that is left (--seconds)"
                )
                continue
            self.tell(f"making {competitor.name}" if competitor.is_costly else f"trying {competitor.name}")
            begun = time.perf_counter()
            try:
                with self._gradients(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = prepare(self.subject, competitor, self.job.phase, self.inputs)
                    made[0]()
                    wrong = self._disagreement(competitor.name, made[0])
            except Exception as error:
                self._fail(competitor.name, f"failed: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
                continue
            seconds[competitor.name] = time.perf_counter() - begun
            if competitor.is_costly:
                self.costs[competitor.name] = seconds[competitor.name]
            if wrong is not None:
                self._fail(competitor.name, f"wrong result, so it is not timed: {wrong}")
                continue
            calls[competitor.name] = made
        return calls, seconds

    def _gradients(self) -> Any:
        return torch.no_grad() if self.job.phase == "forward" else torch.enable_grad()

    def _disagreement(self, name: str, call: Call) -> str | None:
        """Return how a competitor's result for the first inputs differs from what it should be."""
        if name == "eager":
            return None
        results = call()
        found = [
            item.detach()
            for item in (results if isinstance(results, tuple | list) else [results])
            if isinstance(item, Tensor)
        ]
        expected = self._expected
        if len(found) > len(expected.values):
            found = found[: len(expected.values)]
        short = replace(
            expected,
            values=expected.values[: len(found)],
            allowed=expected.allowed[: len(found)],
            own=None if expected.own is None else expected.own[: len(found)],
        )
        wrong = compare(found, short)
        return None if wrong is None else str(wrong)

    @property
    def _expected(self) -> Any:
        if not hasattr(self, "_known"):
            run = None if self.job.phase == "forward" else self._reference_gradients
            self._known = expect(self.subject, self.job.workload.case, self.inputs[0], run)
        return self._known

    def _reference_gradients(self, values: Mapping[str, Any]) -> list[Tensor]:
        competitor = Competitor("reference", lambda: self.subject.reference)
        with torch.enable_grad():
            (call,) = prepare(self.subject, competitor, "both", [values])
            return [item for item in call() if isinstance(item, Tensor)]

    def _fail(self, name: str, error: str) -> None:
        workload = self.job.workload
        self.failed.append(Timing(workload.label, workload.dtype, self.job.phase, name, error=error))

    def _timing(
        self, name: str, measured: Measurement, work: Work, prepare_s: float, peak: int | None, wrong: str | None
    ) -> Timing:
        workload, series = self.job.workload, measured.series[name]
        least_s, bound = self.limits.seconds(work.moved, work.flops, workload.dtype)
        if least_s < self.limits.launch_s:
            bound = "launch"
        share = least_s / series.device.middle
        error = f"wrong result after timing: {wrong}" if wrong is not None else ""
        if share > _ABOVE_LIMIT and workload.is_out_of_cache and work.moved > 0:
            error = f"wrong figure: {share:.2f} of the machine's limit; the measurement is not to be believed"
        operator = next(iter(measured.series))
        return Timing(
            workload.label,
            workload.dtype,
            self.job.phase,
            name,
            series.device,
            series.wall,
            None if name == operator else measured.verdict(operator, name),
            None if name == operator else measured.verdict(operator, name, "wall"),
            share,
            bound,
            work.moved,
            work.flops,
            peak,
            len(series.wall_s),
            prepare_s,
            error,
            () if workload.is_out_of_cache else ("the inputs stay in the cache",),
        )
