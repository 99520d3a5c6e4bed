"""How an operator is profiled: the smallest and the largest of its sizes, each as a call without and with gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from opsmith.bench.competitors import differentiable
from opsmith.bench.machine import load_warning, this_machine
from opsmith.bench.workload import Workload, workloads
from opsmith.check.subject import Subject
from opsmith.errors import ArgumentError
from opsmith.profile.calls import PHASES, backward_calls, forward_call, gradients, recording_call
from opsmith.profile.ladder import Ladder, Pace, climb, ladder_of, operator_ladder
from opsmith.profile.loops import Call
from opsmith.profile.parts import agreement_of, parts_of, whole_of
from opsmith.profile.result import CallProfile, ProfileReport
from opsmith.profile.timed import build_twin
from opsmith.spec.definition import Device

__all__ = ["ProfileOptions", "run_profile"]


@dataclass(frozen=True)
class ProfileOptions:
    """What is profiled: phases, the element type, sizes by name (two of the usual ones where there are none).

    `trace` is a file for a Chrome trace of some calls, and `ncu` whether Nsight Compute is asked where it is there.
    """

    phases: tuple[str, ...] = PHASES
    dtype: str | None = None
    sizes: tuple[Mapping[str, int], ...] = ()
    pace: Pace = field(default_factory=Pace)
    seed: int = 0
    ncu: bool = True


def run_profile(
    subject: Subject, device: str, options: ProfileOptions | None = None, watch: Callable[[str], Any] | None = None
) -> ProfileReport:
    """Profile an operator on a device; `watch` is told what comes next.

    Raises ArgumentError for sizes or phases that do not fit, and BuildError where the timed twin cannot be built.
    """
    options = options or ProfileOptions()
    watch = watch or (lambda text: None)
    if unknown := [phase for phase in options.phases if phase not in PHASES]:
        raise ArgumentError(f"there is no phase {unknown[0]!r}; there are {', '.join(PHASES)}")
    started = time.perf_counter()
    warnings = [text for text in [load_warning(device)] if text]
    calls = []
    for workload in _chosen(subject, device, options):
        has_gradient = bool(differentiable(subject, workload.inputs(0)))
        for phase in options.phases:
            if phase == "forward" or has_gradient:
                watch(f"{workload.label}, {phase}")
                calls.append(_Profiler(subject, workload, phase, options).run())
    return ProfileReport(
        subject.name,
        this_machine(device),
        tuple(calls),
        options.seed,
        time.perf_counter() - started,
        tuple(warnings),
    )


def _chosen(subject: Subject, device: str, options: ProfileOptions) -> list[Workload]:
    """Return the workloads asked for, or the one with the fewest bytes and the one with the most."""
    known = [item.get("T", "") for item in subject.dtypes]
    dtype = options.dtype or ("float32" if "float32" in known else known[0] if known else "")
    found = sorted(workloads(subject, device, [dtype], options.sizes), key=lambda workload: workload.bytes_in)
    if not found:
        raise ArgumentError(f"{subject.name} has no size to be profiled at: give sizes, or examples")
    return found if options.sizes else list({0: found[0], len(found) - 1: found[-1]}.values())


class _Profiler:
    """One size at one phase."""

    def __init__(self, subject: Subject, workload: Workload, phase: str, options: ProfileOptions) -> None:
        self.subject, self.workload, self.phase, self.options = subject, workload, phase, options
        operator = subject.operator
        device: Device = "cpu" if workload.device == "cpu" else "cuda"
        self.twin = build_twin(operator.definition, device) if operator is not None else None

    def run(self) -> CallProfile:
        """Return where the time of a call goes."""
        inputs = [self.workload.inputs(index) for index in range(self.workload.sets)]
        with torch.no_grad() if self.phase == "forward" else torch.enable_grad():
            ladder, calls = self._prepare(inputs)
            rounds = climb(ladder, calls, self.workload.device, self.options.pace, seed=self.options.seed)
        profile = CallProfile(
            self.workload.label,
            self.workload.dtype,
            self.phase,
            whole_of(rounds),
            parts_of(rounds, self.workload.device, self.phase),
            agreement_of(rounds),
            len(rounds),
            ladder.notes,
        )
        return profile

    def _prepare(self, inputs: list[dict[str, Any]]) -> tuple[Ladder, dict[str, list[Call]]]:
        """Return the levels, and the calls of each."""
        operator = self.subject.operator
        if self.phase == "backward":
            return self._prepare_backward([recording_call(self.subject, values) for values in inputs])
        make = forward_call if self.phase == "forward" else recording_call
        calls = [make(self.subject, values) for values in inputs]
        if operator is None:
            ladder = ladder_of(self.subject.call, calls[0])
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
            ladder = ladder_of(gradients, plain[0])
            return ladder, dict.fromkeys(ladder.levels, plain)
        pairs = [backward_calls(call, self.twin.operator, gradient) for call in calls]
        above, below = [pair[0] for pair in pairs], [pair[1] for pair in pairs if pair[1] is not None]
        ladder = operator_ladder(gradients, gradients, gradient, self.twin, above[0], below[0])
        by_level = {"whole": plain, "empty": plain, "python": above, "dispatch": below, "below": below}
        return ladder, by_level
