"""Compares builds by JIT, setuptools and CMake: their build times, and calls of all three in turn.

PyTorch registers an operator's name once. So each builder also builds the operator under other namespaces, from the same
sources with the same commands. These copies are in one process and called with the same inputs, in one run of `measure`;
their bytes show that they equal the libraries that people get.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith import _subprocess
from opsmith._override import overridden
from opsmith.benchmark import first_load
from opsmith.benchmark.build_result import BuildReport, BuildTimes, CallTimes
from opsmith.benchmark.clock import Call, Turns, clock_for
from opsmith.benchmark.copies import compare_copies
from opsmith.benchmark.extremes import extreme_workloads
from opsmith.benchmark.machine import this_machine
from opsmith.benchmark.measure import Limits, Measurement, TooSlowError, measure
from opsmith.benchmark.workload import Workload
from opsmith.build.builders import BUILDERS, Request, build_group, require_builder
from opsmith.build.devices import wanted_devices
from opsmith.build.prepare import prepare
from opsmith.errors import ArgumentError, LoadError, ToolchainError
from opsmith.runtime.load import load_library
from opsmith.runtime.operator import Operator
from opsmith.spec.definition import Definition, Group
from opsmith.subject.subject import Subject

__all__ = ["BuildOptions", "bench_builds", "differing_builds"]

# What is built first: all others are compared with it, and none can do without what it needs.
_BASELINE = "jit"
# Copies of each build that are made in the first round: three of three builds tell what copies differ by.
_COPIES = 3
# New processes in each round; starting one and importing torch takes a second or two.
_LOADS = 2
_LOAD_TIMEOUT_S = 120
# The part of the time that builds may take; calls take the rest.
_BUILDING = 0.8

# A library, and the operator's definition in the namespace that it has there.
_Copy = tuple[Path, Definition]

# For namespaces that no other run in this process has taken.
_numbers = itertools.count()


@dataclass(frozen=True)
class BuildOptions:
    """How often each builder builds at most, how long all may take in seconds, and at what the results are called.

    A first round of builds is made however long it takes.
    """

    rounds: int = 3
    seconds: float = 60.0
    dtype: str | None = None
    sizes: tuple[Mapping[str, int], ...] = ()
    limits: Limits = field(default_factory=Limits)
    seed: int = 0


def bench_builds(
    subject: Subject, device: str, options: BuildOptions | None = None, watch: Callable[[str], Any] | None = None
) -> BuildReport:
    """Build an operator's module in each way, several times, and time calls of the results on a device in turn.

    A builder that is not installed is left out with the reason. Raises ArgumentError for what opsmith does not build,
    CompileError and ToolchainError if nothing can be built, and LoadError if a library does not load.
    """
    options, watch = options or BuildOptions(), watch or (lambda text: None)
    operator = subject.operator
    if operator is None or not operator.definition.kernels:
        raise ArgumentError(f"{subject.name} is not built by opsmith, so there are no builds to compare")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="opsmith-builds-") as folder:
        # No background build while something is timed.
        with overridden("OPSMITH_BRIDGE", "off"), overridden("OPSMITH_PCH", "off"):
            times, renamed = _Builds(operator, Path(folder), options, watch).run()
        overloads = {name: [_load(library, definition) for library, definition in of] for name, of in renamed.items()}
    calls = []
    for workload in extreme_workloads(subject, device, options.dtype, options.sizes):
        watch(f"calls, {workload.label}")
        calls.append(_time_calls(subject, workload, overloads, options))
    return BuildReport(subject.name, this_machine(device), times, tuple(calls), time.perf_counter() - started)


class _Builds:
    """All builds of one operator's module, and the time that each takes."""

    def __init__(self, operator: Operator, folder: Path, options: BuildOptions, watch: Callable[[str], Any]) -> None:
        from opsmith.build.discover import discover

        self.folder, self.options, self.watch = folder, options, watch
        self.definition = operator.definition
        module = self.definition.module
        (self.group,) = [group for group in discover(module) if group.module == module]
        wanted = wanted_devices(self.group.definitions)
        missing = prepare(self.group, wanted).missing
        self.devices = tuple(device for device in wanted if device not in missing)
        self.left_out: dict[str, str] = {}
        self.seconds: dict[str, dict[str, list[float]]] = {
            name: {"cold": [], "again": [], "load": []} for name in BUILDERS
        }
        self.libraries: dict[str, bytes] = {}
        self.renamed: dict[str, list[_Copy]] = {}

    def run(self) -> tuple[tuple[BuildTimes, ...], dict[str, list[_Copy]]]:
        """Return the times, and for each builder its libraries with the definitions in namespaces of their own."""
        shuffle, order = random.Random(self.options.seed), list(BUILDERS)
        started = time.perf_counter()
        for index in range(self.options.rounds):
            shuffle.shuffle(order)
            for builder in order:
                if builder not in self.left_out:
                    self.watch(f"round {index + 1}, {builder}")
                    self._build(builder, index)
            # The next round takes about as long as those before it did.
            taken = time.perf_counter() - started
            if taken * (index + 2) / (index + 1) > _BUILDING * self.options.seconds:
                break
        return tuple(self._times(builder) for builder in BUILDERS), self.renamed

    def _build(self, builder: str, index: int) -> None:
        folder = self.folder / f"{builder}{index}"
        seconds = self.seconds[builder]
        with overridden("OPSMITH_CACHE_DIR", str(folder / "store")):
            try:
                require_builder(builder)
                cold_s, library = _timed(self.group, builder, Request(self.devices, output=folder / "cold"))
            except ToolchainError as error:
                if builder == _BASELINE:
                    raise
                self.left_out[builder] = str(error)
                return
            seconds["cold"].append(cold_s)
            self.libraries.setdefault(builder, library.read_bytes())
            for _ in range(_COPIES if index == 0 else 1):
                self._build_copy(builder, folder)
            seconds["load"] += list(self._loads(builder, library))

    def _build_copy(self, builder: str, folder: Path) -> None:
        """Build the module once more, in a new namespace; the store knows the compilers by now."""
        number = next(_numbers)
        others = [replace(one, namespace=f"{one.namespace}_{builder}{number}") for one in self.group.definitions]
        renamed = replace(self.group, definitions=tuple(others))
        again_s, library = _timed(renamed, builder, Request(self.devices, output=folder / f"again{number}"))
        self.seconds[builder]["again"].append(again_s)
        (mine,) = [one for one in others if one.name == self.definition.name]
        self.renamed.setdefault(builder, []).append((library, mine))

    def _loads(self, builder: str, library: Path) -> Iterator[float]:
        """Yield the seconds of the first load in new processes, the JIT's from the store and others' by PyTorch alone."""
        what = ("store", self.group.module) if builder == _BASELINE else ("library", str(library))
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": ""}
        # The JIT's first process notes for the next ones where the artefact is.
        skipped = int(builder == _BASELINE)
        for index in range(_LOADS + skipped):
            argv = [sys.executable, first_load.__file__, *what]
            done = _subprocess.ask(argv, timeout_s=_LOAD_TIMEOUT_S, env=environment)
            if isinstance(done, str) or done.status != 0:
                raise LoadError(f"{library.name} does not load in its own process: {done}")
            if index >= skipped:
                yield float(done.output.strip().splitlines()[-1])

    def _times(self, builder: str) -> BuildTimes:
        if builder in self.left_out:
            return BuildTimes(builder, left_out=self.left_out[builder])
        data, seconds = self.libraries[builder], self.seconds[builder]
        return BuildTimes(
            builder,
            tuple(seconds["cold"]),
            tuple(seconds["again"]),
            tuple(seconds["load"]),
            len(data),
            hashlib.sha256(data).hexdigest(),
        )


def _timed(group: Group, builder: str, request: Request) -> tuple[float, Path]:
    started = time.perf_counter()
    library = build_group(group, builder, request).library
    return time.perf_counter() - started, library


def _load(library: Path, definition: Definition) -> Any:
    load_library(library, [definition])
    return getattr(getattr(torch.ops, definition.namespace), definition.name).default


def _time_calls(
    subject: Subject, workload: Workload, overloads: Mapping[str, Sequence[Any]], options: BuildOptions
) -> CallTimes:
    inputs = workload.input_sets(workload.inputs(0), workload.sets)
    copies = {(name, index): copy for name, of in overloads.items() for index, copy in enumerate(of)}
    calls: dict[str, list[Call]] = {
        f"{name} {index}": [
            partial(copy, *subject.arguments(values), **subject.keyword_arguments(values)) for values in inputs
        ]
        for (name, index), copy in copies.items()
    }
    with torch.no_grad():
        differing = differing_builds(subject, workload, {name: of[0] for name, of in overloads.items()})
        measured = _measured(calls, workload.device, options)
    samples = {
        name: [measured.series[f"{name} {index}"].device_s for index in range(len(of))]
        for name, of in overloads.items()
    }
    times, verdicts, noise = compare_copies(samples, measured.noise())
    return CallTimes(workload.label, workload.dtype, times, verdicts, len(measured.control.wall_s), noise, differing)


def _measured(calls: Mapping[str, Sequence[Call]], device: str, options: BuildOptions) -> Measurement:
    """Time all builds in turn: for as long as the limits say, or as the fewest rounds take where that is longer."""
    turns, clock = {name: Turns(made) for name, made in calls.items()}, clock_for(device)
    try:
        return measure(turns, clock, options.limits, seed=options.seed)
    except TooSlowError as error:
        longer = replace(options.limits, seconds=10 * sum(error.round_s.values()))
        return measure(turns, clock, longer, seed=options.seed)


def differing_builds(subject: Subject, workload: Workload, overloads: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the builds that give other bits than the first does; none where that gives others each time."""
    baseline, *others = overloads
    expected = _bits(subject, workload, overloads[baseline])
    if not _are_equal(expected, _bits(subject, workload, overloads[baseline])):
        return ()
    return tuple(name for name in others if not _are_equal(expected, _bits(subject, workload, overloads[name])))


def _bits(subject: Subject, workload: Workload, overload: Any) -> list[Tensor]:
    """Return the bytes of each result and of each argument that is written to: a NaN is equal to itself then."""
    found = subject.results(overload, workload.inputs(0))
    return [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in found]


def _are_equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))
