"""Mutates an operator: builds each mutant, tries it in a child process, and says which of them a check finds.

Several workers share the mutants, each a process of its own that compiles one and then tries it. They are forked from this
process, which has declared the operator and must not have loaded it: PyTorch cannot unload one, and a child that has it
could not load a mutant.
"""

from __future__ import annotations

import importlib
import os
import random
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path

import torch

from opsmith._keywords import names_in
from opsmith.checker.mutate.build import Builder
from opsmith.checker.mutate.fingerprint import fingerprint
from opsmith.checker.mutate.mutants import Mutant, find_mutants, kernels_of, sampled
from opsmith.checker.mutate.options import MutateOptions
from opsmith.checker.mutate.reasons import why_it_survived
from opsmith.checker.mutate.report import MutationReport, Verdict
from opsmith.checker.mutate.trial import Limits, Seen, Trial, try_library
from opsmith.checker.process.child import Child, Ended, Send, from_several
from opsmith.errors import ArgumentError
from opsmith.runtime.bridge import find_bridge
from opsmith.runtime.operator import Operator, operators_of
from opsmith.spec.definition import Device
from opsmith.subject.devices import devices_here
from opsmith.subject.selection import dtype_names
from opsmith.toolchain.resources import cpu_count

__all__ = ["MutationWatcher", "mutate_operator"]

# A call hangs that takes so many times as long as any of the original's, and at least so many seconds.
_PATIENCE, _LEAST_SILENCE_S = 10.0, 4.0
_MOST_DEATHS = 3
_RECORD = struct.Struct("<i")

# What a child's properties import: here once, and not in each child.
_PROPERTIES = (
    "values",
    "gradients",
    "memory",
    "sharing",
    "repeats",
    "threads",
    "state",
    "growth",
    "refusals",
    "large",
    "second_gradients",
)


@dataclass(frozen=True)
class MutationWatcher:
    """Functions that follow a mutation: `on_step` gets what is done before the first mutant, `on_verdict` each verdict with
    the number of those that are decided and of all.
    """

    on_step: Callable[[str], None] = lambda text: None
    on_verdict: Callable[[Verdict, int, int], None] = lambda verdict, done, total: None


def mutate_operator(operator: Operator, options: MutateOptions, watch: MutationWatcher | None = None) -> MutationReport:
    """Return what became of an operator's mutants.

    The operator must not be loaded in this process (`mutate_elsewhere`). Raises ArgumentError if it has no kernel for the
    device or fails its check by a crash, and BuildError if the original cannot be built.
    """
    watch = watch or MutationWatcher()
    started = time.perf_counter()
    definition = operator.definition
    name = f"{definition.namespace}.{definition.name}"
    devices_here()  # before anything else asks for a GPU, and makes it unusable in the children
    device = _checked_device(operator, options)
    with tempfile.TemporaryDirectory(prefix="opsmith-mutate-") as scratch:
        watch.on_step("building the original")
        definitions = [item.definition for item in operators_of(definition.module)]
        builder = Builder(definitions, device, Path(scratch))
        kernels = kernels_of(operator, device)
        own = [source for source in builder.sources if any(source in kernel.sources for kernel in kernels)]
        mutable = [*own, *(builder.headers if options.headers else ())]
        possible = find_mutants(kernels, builder.texts, mutable)
        mutants = sampled(possible, options.mutants, options.seed)
        builder.prepare_quick(mutable)
        _import_properties()
        watch.on_step("checking the original")
        until_s = time.monotonic() + (options.seconds or inf)
        trial, seen = _original(_trial_of(operator, device, options), builder)
        verdicts = list(_verdicts(trial, builder, mutants, watch, until_s))
        notes = list(_notes(seen, mutable, builder, options, len(mutants) - len(verdicts)))
    return MutationReport(
        name, device, tuple(verdicts), len(possible), options.seed, time.perf_counter() - started, tuple(notes)
    )


def _checked_device(operator: Operator, options: MutateOptions) -> Device:
    definition = operator.definition
    name = f"{definition.namespace}.{definition.name}"
    device: Device = "cuda" if options.device == "cuda" else "cpu"
    if not kernels_of(operator, device):
        raise ArgumentError(f"{name} has no kernel for {options.device}: there is nothing to mutate")
    for kernel in kernels_of(operator, device):
        if language := {"triton": "Triton", "cute": "CuTe"}.get(kernel.style):
            raise ArgumentError(
                f"{name} has a {language} kernel for {options.device}, and only C++ and CUDA are mutated"
            )
    if options.device == "cuda" and (not torch.cuda.is_available() or torch.cuda.is_initialized()):
        raise ArgumentError("device cuda: torch does not see a GPU, or this process has used it already")
    return device


def _trial_of(operator: Operator, device: Device, options: MutateOptions) -> Trial:
    return Trial(operator, device, options.seed, dtype_names(options.dtypes), names_in(options.properties))


def _original(trial: Trial, builder: Builder) -> tuple[Trial, Seen]:
    """Return the trial of mutants, and what that of the original has seen: what fails there is not asked of mutants."""
    assert builder.original.library is not None
    generous = replace(trial, goes_on=True, limits=Limits(silence_s=60.0, longest_s=600.0))
    died: list[str] = []
    while True:
        seen = try_library(replace(generous, ignored=frozenset(died)), builder.original.library)
        if seen.left_out is not None:
            break
        # Its process ended: on without the property that it was at.
        died.append(seen.named)
        if len(died) > _MOST_DEATHS or seen.named in died[:-1]:
            raise ArgumentError(f"the operator itself fails {seen.named}: {seen.message}. Run `opsmith check` first")
    if not seen.passed:
        raise ArgumentError(
            f"no property of the operator itself holds, so its mutants tell nothing. {seen.error}".strip()
        )
    seen = replace(seen, failures=(*died, *seen.failures))
    limits = Limits(silence_s=max(_LEAST_SILENCE_S, _PATIENCE * seen.silence_s))
    return replace(trial, ignored=frozenset(seen.failures), left_out=seen.left_out, limits=limits), seen


def _notes(
    seen: Seen, mutable: Sequence[Path], builder: Builder, options: MutateOptions, untried: int
) -> Iterator[str]:
    if untried:
        yield f"{untried} mutants did not fit into the time"
    if seen.error:
        yield f"a property of the original cannot be checked: {seen.error}"
    if seen.failures:
        yield f"the original fails {'; '.join(seen.failures)}: mutants are not asked for that"
    others = [header.name for header in builder.headers if header not in mutable]
    if others and not options.headers:
        named = ", ".join(others[:4]) + (", ..." if len(others) > 4 else "")
        yield f"not mutated: the headers that the kernels include ({named}); --mutate-headers includes them"


def _import_properties() -> None:
    for name in _PROPERTIES:
        importlib.import_module(f"opsmith.checker.properties.{name}")
    find_bridge()


def _verdicts(
    trial: Trial, builder: Builder, mutants: Sequence[Mutant], watch: MutationWatcher, until_s: float
) -> Iterator[Verdict]:
    """Yield the verdicts of mutants in their order, once all are there or the time is over."""
    found: dict[int, Verdict] = {}
    # In no particular order, so that a run that ends early has tried some of every kind.
    left = random.Random(trial.seed).sample(range(len(mutants)), len(mutants))
    while left:
        begun: dict[int, int] = {}
        for worker, message in _work(trial, builder, mutants, left, until_s):
            if isinstance(message, tuple):
                index, verdict = message
                found[index] = verdict
                watch.on_verdict(verdict, len(found), len(mutants))
            elif isinstance(message, int):
                begun[worker] = message
        # A worker that was killed, for its memory perhaps, has left its mutant undone. What does that is found.
        for index in begun.values():
            if index not in found:
                found[index] = Verdict(mutants[index], "found", "", "it ended the process that tried it")
        left = [index for index in left if index not in found] if time.monotonic() < until_s else []
    first: dict[str, Verdict] = {}
    for index in sorted(found):
        verdict = found[index]
        if verdict.fate in ("found", "survived") and verdict.digest:
            earlier = first.setdefault(verdict.digest, verdict)
            if earlier is not verdict:
                message = f"that of the mutant of line {earlier.mutant.line}, {earlier.mutant.kind}"
                verdict = replace(verdict, fate="same code", message=message)
        yield verdict


def _work(
    trial: Trial, builder: Builder, mutants: Sequence[Mutant], left: Sequence[int], until_s: float
) -> Iterator[tuple[int, object]]:
    """Yield what workers send: the number of the mutant that one begins, and (number, verdict)."""
    # The workers take numbers from a pipe until it is empty: reads of a few bytes are whole.
    reading, writing = os.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, reading)
        with os.fdopen(writing, "wb") as numbers:
            numbers.write(b"".join(map(_RECORD.pack, left)))
        work = partial(_take, trial, builder, mutants, reading, until_s)
        workers = [stack.enter_context(Child(work)) for _ in range(min(cpu_count(), len(left)))]
        for worker, message in from_several(workers):
            if not isinstance(message, Ended):
                yield worker, message


def _take(trial: Trial, builder: Builder, mutants: Sequence[Mutant], numbers: int, until_s: float, send: Send) -> None:
    """Decide on mutants, one after the other, until none or no time is left: the work of one worker."""
    known: list[tuple[str, ...] | None] = []

    def original() -> tuple[str, ...] | None:
        """Return the original's results, computed once for each worker, when a mutant survives."""
        assert builder.original.library is not None
        if not known:
            known.append(fingerprint(trial, builder.original.library))
        return known[0]

    while time.monotonic() < until_s and (record := os.read(numbers, _RECORD.size)):
        index = _RECORD.unpack(record)[0]
        send(index)
        started = time.perf_counter()
        verdict = _decide(trial, builder, mutants[index], f"m{index}", original)
        send((index, replace(verdict, seconds=time.perf_counter() - started)))


def _decide(
    trial: Trial, builder: Builder, mutant: Mutant, name: str, original: Callable[[], tuple[str, ...] | None]
) -> Verdict:
    changed = {mutant.file: mutant.applied(builder.texts[mutant.file])}
    quick = builder.build(f"{name}-quick", changed, quick=True)
    if quick.library is None:
        return Verdict(mutant, "not compiled", message=quick.error)
    same = Verdict(mutant, "same code", message="the original's")
    if quick.is_original:
        return same
    seen = try_library(trial, quick.library)
    if seen.named:
        return Verdict(mutant, "found", seen.named, seen.message, digest=quick.digest)
    built = builder.build(name, changed)
    if built.is_original:
        return same
    why = why_it_survived(trial, builder, mutant, built, name, original)
    return Verdict(mutant, "survived", why=why, digest=quick.digest)
