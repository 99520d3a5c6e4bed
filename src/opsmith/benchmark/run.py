"""Benchmarks an operator: compiles what has to be compiled, then times each size and phase, within a budget of time."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from opsmith._keywords import names_in
from opsmith.benchmark.calls import has_gradient
from opsmith.benchmark.ceilings import ceilings
from opsmith.benchmark.clock import Call, clock_for
from opsmith.benchmark.competitors import PHASES, Competitor, competitors
from opsmith.benchmark.compiled import Compiler, compiling
from opsmith.benchmark.conditions import Conditions, load_at_once, torch_threads
from opsmith.benchmark.deadline import Deadline, OutOfTime, time_limit
from opsmith.benchmark.figures import Figures
from opsmith.benchmark.job import Job, JobContext, JobRun
from opsmith.benchmark.machine import this_machine
from opsmith.benchmark.measure import Limits
from opsmith.benchmark.options import BenchOptions
from opsmith.benchmark.progress import Progress, Watch
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.workload import Workload, workloads
from opsmith.subject.selection import dtype_names
from opsmith.subject.subject import Subject

__all__ = ["refuse_wrong", "run_bench"]

# Of the time there is, compiling may take this part; the sizes share what lies before the last part of it, and none begins
# when the half of that is over.
_COMPILING, _AFTER = 0.5, 0.14
# This part of the time is for the operator, however long the build and the machine's limits took; both are kept.
_AT_LEAST = 0.5
# Looking at kernels may be late by so much.
_LATE_S = 3.0


def run_bench(
    subject: Subject,
    device: str,
    options: BenchOptions | None = None,
    watch: Watch | None = None,
    *,
    limits: Limits | None = None,
    extra: tuple[Competitor, ...] = (),
) -> BenchReport:
    """Time an operator on a device; `watch` gets what is timed next.

    `limits` are those of a measurement, and `extra` further competitors, such as other builds of the same operator.

    Raises ArgumentError for sizes, element types and competitors that the operator does not have, and BuildError if it
    cannot be built.
    """
    options = options or BenchOptions()
    with torch_threads(options.threads):
        return _Bench(subject, device, options, watch or (lambda progress: None), limits or Limits(), extra).run()


def refuse_wrong(subject: Subject, device: str, options: BenchOptions) -> None:
    """Raise ArgumentError if `run_bench` would, before anything is built: of several operators it may be the last."""
    competitors(subject, device, names_in(options.against))
    for _ in _workloads(subject, device, options):
        pass


class _Bench:
    """One operator on one device."""

    def __init__(
        self,
        subject: Subject,
        device: str,
        options: BenchOptions,
        watch: Watch,
        limits: Limits,
        extra: tuple[Competitor, ...],
    ) -> None:
        self.subject, self.device, self.options, self.watch, self.limits = subject, device, options, watch, limits
        self.started = time.perf_counter()
        self.competitors = competitors(subject, device, names_in(options.against), extra)
        self.jobs = tuple(_jobs(subject, device, options))
        self.timings: list[Timing] = []
        self.probes: dict[tuple[Job, str], Call] = {}

    def run(self) -> BenchReport:
        """Return the report."""
        options = self.options
        self._tell("building the operator")
        load_at_once(self.subject.operator)
        # The compiler, which counting operations imports too: a second or two that belong to no size.
        importlib.import_module("torch._dynamo")
        self._tell("the machine's limits")
        measured = ceilings(self.device)
        spent_s = time.perf_counter() - self.started
        self.end = Deadline(max(options.seconds * (1 - _AFTER) - spent_s, options.seconds * _AT_LEAST))
        figures = Figures(measured, partial(ceilings, self.device, again=True))
        compiler = Compiler(self.subject, self.device, Deadline(self.end.left_s * _COMPILING))
        clock = clock_for(self.device)
        last = Deadline(self.end.left_s + options.seconds * _AFTER / 2)
        context = JobContext(self.subject, self.competitors, clock, compiler, figures, self.limits, options.seed, last)
        with self._compiling():
            self._compile(compiler)
            conditions = Conditions(self.device)
            self._time(context)
            found, warned = conditions.finish()
            if self.device == "cuda":
                self._add_kernel_times()
        return BenchReport(
            self.subject.name,
            this_machine(self.device),
            tuple(self.timings),
            options.seed,
            time.perf_counter() - self.started,
            (*self._warnings(), *warned),
            asdict(figures.ceilings),
            found,
        )

    def _compile(self, compiler: Compiler) -> None:
        """Compile what torch.compile is needed for, the usual mode for all sizes first."""
        for competitor in self.competitors:
            for job in self.jobs if competitor.kind == "compiled" else ():
                if job.phase in competitor.phases:
                    self._tell(f"compiling {competitor.name} for {job}")
                    compiler.compile(competitor, job.workload, with_gradient=job.phase != "forward")

    def _time(self, context: JobContext) -> None:
        for index, job in enumerate(self.jobs):
            share = self.end.left_s / (len(self.jobs) - index)
            running = JobRun(context, job, share, partial(self._tell_job, job, index))
            self.timings += running.run()
            if self.device == "cuda" and _has_memory_to_spare():
                self.probes |= {(job, name): _in_phase(job, call) for name, call in running.probes.items()}

    def _add_kernel_times(self) -> None:
        """Look at kernels with CUPTI, after everything is timed: calls are slower from then on.

        It takes a second or two, which are of what was kept back of the time.
        """
        from opsmith.benchmark.kernels import kernel_times

        self._tell("the kernels alone", len(self.jobs))
        late = max(_LATE_S, self.options.seconds - (time.perf_counter() - self.started))
        try:
            with time_limit(late):
                found = kernel_times(self.probes)
        except (OutOfTime, RuntimeError):
            return  # CUPTI is not permitted, or in use elsewhere
        by_key = {
            (job.workload.label, job.workload.dtype, str(job.phase), name): taken
            for (job, name), taken in found.items()
        }
        for index, timing in enumerate(self.timings):
            taken = by_key.get((timing.workload, timing.dtype, timing.phase, timing.competitor))
            if taken is not None and timing.time is not None:
                self.timings[index] = replace(timing, kernel_s=taken.seconds, kernels=taken.count)

    def _compiling(self) -> AbstractContextManager[None]:
        # Importing the compiler takes seconds.
        is_needed = any(competitor.kind == "compiled" for competitor in self.competitors)
        return compiling(self.device) if is_needed else nullcontext()

    def _warnings(self) -> Iterator[str]:
        operator = self.subject.operator
        if operator is not None and self.device not in operator.definition.kernels:
            yield f"{self.subject.name} has no kernel for {self.device}: the operator that is timed is its own reference"

    def _tell(self, doing: str, done: int = 0) -> None:
        self.watch(Progress(self.subject.name, doing, done, len(self.jobs), tuple(self.timings)))

    def _tell_job(self, job: Job, index: int, doing: str) -> None:
        self._tell(f"{job}: {doing}", index)


def _jobs(subject: Subject, device: str, options: BenchOptions) -> Iterator[Job]:
    # Whether there is a gradient is asked once for an element type, with the first size.
    known: dict[str, bool] = {}
    phases = [phase for phase in PHASES if phase in options.phases]
    for workload in _workloads(subject, device, options):
        for phase in phases:
            if phase != "forward" and workload.dtype not in known:
                known[workload.dtype] = _has_gradient(subject, workload.inputs(0))
            if phase == "forward" or known[workload.dtype]:
                yield Job(workload, phase)


def _workloads(subject: Subject, device: str, options: BenchOptions) -> Iterator[Workload]:
    dtypes = dtype_names(options.dtypes) or _usual_dtypes(subject, device)
    return workloads(subject, device, dtypes, options.sizes)


def _has_gradient(subject: Subject, values: Mapping[str, Any]) -> bool:
    try:
        return has_gradient(subject, values)
    except (RuntimeError, NotImplementedError):
        return False  # the timing of the forward says what is wrong with the reference


def _usual_dtypes(subject: Subject, device: str) -> tuple[str, ...]:
    """Return what people use on a device: float32, on a GPU bfloat16 too; where an operator has neither, its first."""
    known = [item.get("T") or next(iter(item.values()), "") for item in subject.dtypes]
    usual = ("float32", "bfloat16") if device == "cuda" else ("float32",)
    return tuple(name for name in usual if name in known) or (known[0] if known else "",)


def _in_phase(job: Job, call: Call) -> Call:
    def run() -> None:
        with torch.set_grad_enabled(job.phase != "forward"):
            call()

    return run


def _has_memory_to_spare() -> bool:
    """Return whether half of the GPU's memory is free; what PyTorch keeps for later is."""
    free, total = torch.cuda.mem_get_info()
    free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return free > total // 2
