"""Checks that repeated calls give identical results, every time and on any number of threads."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.bits import Difference, differences
from opsmith.checker.calls import (
    accepted,
    differentiated,
    is_accepted,
    is_gradient_of_body,
    kernel_outputs,
    quiet,
    seed_generators,
)
from opsmith.checker.memory.guard import sheltered
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case
from opsmith.subject.oracle import compare, expect

__all__ = ["ON_ONE_THREAD", "determinism", "threads"]

# Small calls run on one thread whatever is allowed, so a few of them say all. Of large ones many are needed: a race
# shows where two threads happen to do the same thing at the same time.
_FEW, _MANY = 4, 200
_LARGE_ELEMENTS = 4096
_SECONDS = 0.1
_M_PERTURB = -6
# For how long one thread's results are looked at where several threads' vary.
_SECONDS_ALONE = 0.3
# Says that it is not a race.
ON_ONE_THREAD = "on one thread too"
# What hands out memory or looks at it in another way, and so does not depend on the number of threads.
_HARMLESS = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "as_strided",
    "view",
    "reshape",
    "contiguous",
    "detach",
)


@dataclass
class _Run:
    """The results of a call by name, gradients too, or what it raised."""

    results: dict[str, Tensor] = field(default_factory=dict)
    error: Exception | None = None


def determinism(context: Context) -> Outcome:
    """Equal calls give equal bits under torch.use_deterministic_algorithms(True), gradients too."""
    count, refused = 0, ""
    usual = torch.get_num_threads()
    first: tuple[Case, _Run] | None = None
    with _deterministic(), sheltered(context.device), quiet(), on_threads(1):
        for case in _cases(context):
            base = _run(context, case, usual)
            if base.error is not None:
                refused = refused or ("deterministic" in str(base.error) and str(base.error).splitlines()[0]) or ""
                continue
            count += 1
            first = first or (case, base)
            kept = [base]  # alive, so that later calls get other memory
            for number in _repeats(context, case):
                _perturb_malloc(number)
                if number % 2:
                    # A run calls an even number of times; what changes with every second call shows now.
                    with contextlib.suppress(Exception):
                        kernel_outputs(context.subject, case.build(context.device))
                other = _run(context, case, usual)
                kept = [base, *kept[-3:], other]
                if found := differences(base.results, other.results):
                    return failed(_varies(context, case, found[0], number + 2), inputs=count)
        if first is not None and (found := differences(first[1].results, _run(context, first[0], usual).results)):
            return failed(_remembers(first[0], found[0]), inputs=count)
    if count:
        return passed(count)
    if refused:
        return passed(0, note=f"it has no deterministic implementation and says so: {refused[:200]}")
    return not_run("no input is accepted by both the reference and the kernel")


def threads(context: Context) -> Outcome:
    """Results on two, three and more threads than there are cores are those on one, bit by bit."""
    usual = torch.get_num_threads()
    count, notes = 0, dict[str, None]()
    with sheltered(context.device), quiet(), on_threads(1):
        for case in _cases(context):
            base = _run(context, case, 1)
            if base.error is not None:
                continue
            if finding := _unsteady_alone(context, case, base):
                return finding
            count += 1
            # What is small runs on one thread anyway, unless the kernel has threads of its own.
            numbers = {2, 3, usual, 2 * usual + 1} if case.elements >= _LARGE_ELEMENTS else {2}
            for number in sorted(numbers - {1}):
                found = _differs_on(context, case, base, number)
                if isinstance(found, Finding):
                    return failed(found, inputs=count)
                if found:
                    notes[found] = None
    return (
        passed(count, note="; ".join(notes))
        if count
        else not_run("no input is accepted by both the reference and the kernel")
    )


def _cases(context: Context) -> Iterator[Case]:
    """Yield the plain cases, the large ones, and the largest of the others."""
    yield from accepted(context, "plain", "large")
    largest = sorted(context.subject.suite.cases(context.dtypes, "sizes"), key=lambda case: -case.elements)
    yield from itertools.islice((case for case in largest if is_accepted(context, case)), 1)


def _run(context: Context, case: Case, count: int) -> _Run:
    """Call the kernel on a number of threads, and once more for gradients; everything is made anew."""
    subject = context.subject
    context.tell(case)
    call = _Run()
    values = case.build(context.device)
    seed_generators(subject.seed)
    try:
        with on_threads(count):
            outputs = kernel_outputs(subject, values)
        call.results = {f"output {index}": output for index, output in enumerate(outputs)}
        call.results |= {name: values[name] for name in subject.mutated if isinstance(values[name], Tensor)}
    except Exception as error:
        call.error = error
        return call
    if is_gradient_of_body(subject):
        return call  # its roundings are those of PyTorch's operators
    values = case.build(context.device)
    with contextlib.suppress(Exception), on_threads(count):
        results, leaves = differentiated(subject, values)
        if results:
            total = sum((result.sum() for result in results[1:]), results[0].sum())
            found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
            gradients = zip(leaves, found, strict=True)
            call.results |= {f"the gradient of {name}": item for name, item in gradients if item is not None}
    return call


def _repeats(context: Context, case: Case) -> Iterator[int]:
    """Count for a while: a few times at least, and in large cases so often that a rare difference shows."""
    seconds = _SECONDS * (10 if context.thorough else 1)
    started = time.monotonic()
    for number in range(_MANY if case.elements >= _LARGE_ELEMENTS else _FEW):
        if number >= _FEW and time.monotonic() - started > seconds:
            return
        yield number


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    # torch.use_deterministic_algorithms tells the compiler as well, and imports it for that, which takes two seconds.
    torch._C._set_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(before, warn_only=warns)
        _perturb_malloc(-1)  # 0, which is off


def _perturb_malloc(number: int) -> None:
    """Have malloc give out other bytes each time, so that a read of uninitialized memory shows.

    glibc fills what is larger than its caches for each thread; those are filled by hand.
    """
    byte = (37 * (number + 1)) % 256
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_M_PERTURB, byte)
    except (AttributeError, OSError):
        return
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    for size in range(24, 1033, 16):
        pointer = library.malloc(size)
        ctypes.memset(pointer, byte, size)
        library.free(pointer)


def _varies(context: Context, case: Case, difference: Difference, calls: int) -> Finding:
    message = f"{case.label}: {difference} differs between equal calls, within {calls} of them"
    if _varies_alone(context, case):
        message += f", {ON_ONE_THREAD}"
    hint = "The result depends on more than the arguments: uninitialized memory, a counter or cache, "
    hint += "random numbers, the order of sums."
    if context.device != "cpu":
        hint += " Floating-point atomics add in a different order each time."
    return Finding(message, case, hint)


def _varies_alone(context: Context, case: Case) -> bool:
    """Whether one of many equal calls on one thread gives another result."""
    base = _run(context, case, 1)
    until_s = time.thread_time() + _SECONDS_ALONE
    for number in range(_MANY):
        if differences(base.results, _run(context, case, 1).results):
            return True
        if number >= _CALLS_TO_LOOK and time.thread_time() > until_s:
            break
    return False


def _remembers(case: Case, difference: Difference) -> Finding:
    message = f"{case.label}: {difference} changes after calls of other sizes"
    hint = "Something persists between calls: a static buffer that is too large now, or a cache by size or address."
    return Finding(message, case, hint)


def _unsteady_alone(context: Context, case: Case, base: _Run) -> Outcome | None:
    """Return the outcome for an operator whose results vary on one thread of PyTorch's already."""
    for _ in _repeats(context, case):
        if found := differences(base.results, _run(context, case, 1).results):
            if _starts_threads(context, case):
                message = f"{case.label}: {found[0]} varies from call to call, and the kernel starts threads of its own"
                return failed(Finding(message, case, _RACE_HINT))
            return not_run("results already vary on one thread; see determinism")
    return None


def _starts_threads(context: Context, case: Case) -> bool:
    """Whether other threads than the calling one work in a call, though PyTorch is to use one alone."""
    before_s = _busy_elsewhere_s()
    for _ in range(_CALLS_TO_LOOK):
        _run(context, case, 1)
    return _busy_elsewhere_s() - before_s > _CALLS_TO_LOOK * _THREAD_S


_RACE_HINT = (
    "Two threads write the same memory, or one reads what another writes: give each its own part, and join after."
)
_CALLS_TO_LOOK = 20
_THREAD_S = 10e-6  # a thread's beginning and end alone take longer


def _busy_elsewhere_s() -> float:
    """Return the processor time that threads other than this one have had."""
    return time.process_time() - time.thread_time()


def _differs_on(context: Context, case: Case, base: _Run, number: int) -> Finding | str:
    """Return how results on a number of threads differ from those on one: a finding, or a note where it is not a defect."""
    found: list[Difference] = []
    first: _Run | None = None
    for _ in _repeats(context, case):
        call = _run(context, case, number)
        if first is not None and (varying := differences(first.results, call.results)):
            message = (
                f"{case.label}: {varying[0]} varies from call to call on {number} threads, and does not on one: "
                "a data race"
            )
            return Finding(message, case, _RACE_HINT)
        found = found or differences(base.results, call.results)
        first = first or call
    if not found or first is None:
        return ""
    if _is_rounding(context, case, first) and (why := _why_excused(context, case, number)):
        return why
    message = f"{case.label}: {found[0]} on {number} threads always differs from that on one"
    return Finding(message, case, "Do not split the work by the number of threads: sum blocks of a fixed size.")


def _is_rounding(context: Context, case: Case, call: _Run) -> bool:
    """Whether results are as near to the reference's as results may be."""
    values = case.build(context.device)
    outputs = [result for name, result in call.results.items() if not name.startswith("the gradient")]
    try:
        return compare(outputs, expect(context.subject, case, values)) is None
    except Exception:
        return False


def _why_excused(context: Context, case: Case, number: int) -> str:
    """Return why results may differ in their last digits, or "": PyTorch's own sums and products do."""
    subject = context.subject

    def reference() -> _Run:
        outputs = subject.results(subject.reference, case.build(context.device))
        return _Run({f"output {index}": output for index, output in enumerate(outputs)})

    with on_threads(1):
        one = reference()
    with on_threads(number):
        if differences(one.results, reference().results):
            return "the last digits depend on the number of threads, as the reference's do"
    values = case.build(context.device)
    used = _pytorch_operators(lambda: kernel_outputs(subject, values))
    return f"the last digits depend on the number of threads; it calls {', '.join(sorted(used)[:3])}" if used else ""


def _pytorch_operators(call: Callable[[], Any]) -> set[str]:
    """Return which operators of PyTorch's compute something in a call, in Python or in C++."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    names = {event.name for event in profile.events() or ()}
    return {name for name in names if name.startswith("aten::") and name.removeprefix("aten::") not in _HARMLESS}
