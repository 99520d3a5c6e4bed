"""Profiles an operator at its smallest and its largest size, each as a call without and with gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from opsmith.benchmark.competitors import differentiable
from opsmith.benchmark.conditions import Conditions, load_at_once
from opsmith.benchmark.extremes import extreme_workloads
from opsmith.benchmark.machine import this_machine
from opsmith.benchmark.statistics import Interval
from opsmith.benchmark.work import work_of
from opsmith.benchmark.workload import Workload
from opsmith.errors import ArgumentError
from opsmith.profiler.calls import backward_calls, forward_call, gradients, recording_call
from opsmith.profiler.gpu import profile_gpu
from opsmith.profiler.ladder import Ladder, RoundLimits, climb, ladder_of, operator_ladder
from opsmith.profiler.loops import Call
from opsmith.profiler.ncu import ask_ncu
from opsmith.profiler.options import ProfileOptions
from opsmith.profiler.parts import agreement_of, parts_of, whole_of
from opsmith.profiler.result import CallProfile, Gpu, ProfileReport
from opsmith.profiler.timed import build_twin
from opsmith.profiler.trace import trace_calls
from opsmith.spec.definition import Device
from opsmith.subject.selection import dtype_names
from opsmith.subject.subject import Subject

__all__ = ["run_profile"]

_TRACED_ON_CPU = 30
_WRITTEN = "arguments that it writes to are not restored between calls"


def run_profile(
    subject: Subject,
    device: str,
    options: ProfileOptions | None = None,
    watch: Callable[[str], Any] | None = None,
    *,
    limits: RoundLimits | None = None,
) -> ProfileReport:
    """Profile an operator on a device; `watch` gets what comes next.

    Raises ArgumentError for sizes or phases that do not fit, and BuildError if the timed twin cannot be built.
    """
    options = options or ProfileOptions()
    watch = watch or (lambda text: None)
    started = time.perf_counter()
    load_at_once(subject.operator)
    conditions = Conditions(device)
    calls = []
    dtype = next(iter(dtype_names(options.dtype)), None)
    jobs = [
        (workload, phase)
        for workload in extreme_workloads(subject, device, dtype, tuple(options.sizes))
        for phase in options.phases
        if phase == "forward" or differentiable(subject, workload.inputs(0))
    ]
    for index, (workload, phase) in enumerate(jobs):
        watch(f"{workload.label}, {phase}")
        # One trace, of the last: the largest size, where there is most to be seen. Counters, which take a process and
        # some seconds each, are of that size too.
        trace = Path(options.trace) if options.trace is not None and index == len(jobs) - 1 else None
        ncu = options.ncu and workload is jobs[-1][0]
        try:
            calls.append(_Profiler(subject, workload, phase, limits or RoundLimits(), options.seed, trace, ncu).run())
        except RuntimeError as error:
            if subject.operator is not None or phase == "forward":
                raise
            # Of other tools' operators only the reference is known to have a gradient.
            raise ArgumentError(
                f"{subject.name} cannot be profiled with gradients ({error}); profile the phase forward alone"
            ) from error
    return ProfileReport(
        subject.name,
        this_machine(device),
        tuple(calls),
        options.seed,
        time.perf_counter() - started,
        conditions.finish()[1],
    )


class _Profiler:
    """One size at one phase."""

    def __init__(
        self,
        subject: Subject,
        workload: Workload,
        phase: str,
        limits: RoundLimits,
        seed: int,
        trace: Path | None,
        ncu: bool,
    ) -> None:
        self.subject, self.workload, self.phase = subject, workload, phase
        self.limits, self.seed, self.trace, self.ncu = limits, seed, trace, ncu
        operator = subject.operator
        device: Device = "cpu" if workload.device == "cpu" else "cuda"
        self.twin = build_twin(operator.definition, device) if operator is not None else None

    def run(self) -> CallProfile:
        """Return where the time of a call goes."""
        inputs = self.workload.input_sets(self.workload.inputs(0), self.workload.sets)
        with torch.no_grad() if self.phase == "forward" else torch.enable_grad():
            ladder, calls = self._prepare(inputs)
            rounds = climb(ladder, calls, self.workload.device, self.limits, seed=self.seed)
            whole = whole_of(rounds)
            gpu = self._gpu(ladder, calls["whole"], whole, inputs[0])
        return CallProfile(
            self.workload.label,
            self.workload.dtype,
            self.phase,
            whole,
            parts_of(rounds, self.workload.device, self.phase),
            agreement_of(rounds),
            len(rounds),
            (*ladder.notes, *([_WRITTEN] if self.subject.mutated else [])),
            gpu,
        )

    def _gpu(self, ladder: Ladder, calls: list[Call], whole: Interval, values: Mapping[str, Any]) -> Gpu | None:
        """Return what the GPU does, and write a trace where one is wanted: both are seen by the same profiler."""
        function = gradients if self.phase == "backward" else self.subject.call

        def call(index: int) -> None:
            args, kwargs = calls[index % len(calls)]
            function(*args, **kwargs)

        if self.workload.device == "cpu":
            if self.trace is not None:
                trace_calls(call, _TRACED_ON_CPU, "cpu", self.trace)
            return None
        moved = work_of(self.subject, "backward" if self.phase == "backward" else "forward", values).moved
        library = self.twin.library if self.twin is not None else None
        found = profile_gpu(call, whole, moved, library, self.trace)
        operator = self.subject.operator
        if found is None or operator is None or not self.ncu:
            return found
        example = recording_call(self.subject, values) if self.phase == "backward" else calls[0]
        return replace(found, ncu=ask_ncu(operator.definition, example, self.phase))

    def _prepare(self, inputs: Sequence[Mapping[str, Any]]) -> tuple[Ladder, dict[str, list[Call]]]:
        """Return the levels, and the calls of each."""
        operator = self.subject.operator
        if self.phase == "backward":
            return self._prepare_backward([recording_call(self.subject, values) for values in inputs])
        make = forward_call if self.phase == "forward" else recording_call
        calls = [make(self.subject, values) for values in inputs]
        if operator is None:
            note = "only the whole call can be timed: parts are known only for operators that opsmith builds"
            ladder = replace(ladder_of(self.subject.call, calls[0]), notes=(note,))
        else:
            has_kernel = self.twin is not None and bool(self.twin.operator.definition.kernels)
            timed = self.twin.operator if self.twin is not None and has_kernel else operator
            twin = self.twin if has_kernel else None
            ladder = operator_ladder(operator, timed, timed, twin, calls[0], calls[0])
        return ladder, dict.fromkeys(ladder.levels, calls)

    def _prepare_backward(self, calls: list[Call]) -> tuple[Ladder, dict[str, list[Call]]]:
        plain = [backward_calls(call, self.subject.call, None)[0] for call in calls]
        gradient = self.twin.gradient if self.twin is not None else None
        if self.twin is None or gradient is None:
            note = "no kernel for this device computes its gradient; PyTorch's operators do"
            ladder = replace(ladder_of(gradients, plain[0]), notes=(note,))
            return ladder, dict.fromkeys(ladder.levels, plain)
        pairs = [backward_calls(call, self.twin.operator, gradient) for call in calls]
        above, below = [pair[0] for pair in pairs], [pair[1] for pair in pairs if pair[1] is not None]
        ladder = operator_ladder(gradients, gradients, gradient, self.twin, above[0], below[0])
        by_level = {"whole": plain, "empty": plain, "python": above, "dispatch": below, "below": below}
        return ladder, by_level
