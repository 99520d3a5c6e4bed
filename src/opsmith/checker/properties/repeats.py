"""Checks that repeated calls give identical results."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

import torch
from torch import Tensor

from opsmith.checker.bits import Difference, differences, same_bits
from opsmith.checker.calls import (
    accepted,
    accepts,
    differentiated,
    is_accepted,
    is_gradient_of_body,
    kernel_outputs,
    other_numbers,
    quiet,
    seed_generators,
)
from opsmith.checker.memory.guard import sheltered
from opsmith.checker.memory.perturb import perturb_malloc, perturbed_no_more
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["ON_ONE_THREAD", "determinism"]

# Small calls run on one thread whatever is allowed, so a few of them say all. Of large ones many are needed: a race
# shows where two threads happen to do the same thing at the same time.
_FEW, _FEW_SLOW, _MANY = 4, 2, 200
_LARGE_ELEMENTS = 4096
_SECONDS, _SLOW_S = 0.1, 0.1
# How many cases are tried however long they take, and for how long others are after them; less in other types than one.
_LEAST_CASES, _SECONDS_OF_CASES, _SECONDS_IN_OTHER_TYPES = 3, 1.2, 0.25
# For how long one thread's results are looked at where several threads' vary.
_LEAST_ALONE, _SECONDS_ALONE = 20, 0.3
# How many small calls are made of one case, for as long at most.
_VERY_MANY, _SECONDS_OF_MANY = 1200, 0.05
# Says that it is not a race.
ON_ONE_THREAD = "on one thread too"
_BUSY_ELEMENTS, _BUSY_LAUNCHES = 1 << 22, 8  # a few hundred microseconds


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
            started = time.monotonic()
            base = _run(context, case, usual)
            is_slow = time.monotonic() - started > _SLOW_S
            if base.error is not None:
                refused = refused or ("deterministic" in str(base.error) and str(base.error).splitlines()[0]) or ""
                continue
            count += 1
            first = first or (case, base)
            kept = [base]  # alive, so that later calls get other memory
            between = [case, other_numbers(case)]
            between = [one for one in between if one is case or accepts(context, one)]
            for number in _repeats(context, case, is_slow=is_slow):
                if number % 2:
                    # A run calls an even number of times; what changes with every second call shows now, and so does
                    # what is left of other numbers.
                    with contextlib.suppress(Exception):
                        kernel_outputs(context.subject, between[number // 2 % len(between)].build(context.device))
                    _keep_busy(context.device)
                other = _run(context, case, usual, number)
                kept = [base, *kept[-3:], other]
                if found := differences(base.results, other.results):
                    return failed(_varies(context, case, found[0], number + 2), inputs=count)
        if first is not None and context.is_main_type and (rare := _rarely_other(context, first[0])) is not None:
            return failed(rare, inputs=count)
        if first is not None and (found := differences(first[1].results, _run(context, first[0], usual).results)):
            return failed(_remembers(first[0], found[0]), inputs=count)
    if count:
        return passed(count)
    if refused:
        return passed(0, note=f"it has no deterministic implementation and says so: {refused[:200]}")
    return not_run("no input is accepted by both the reference and the kernel")


def _cases(context: Context) -> Iterator[Case]:
    """Yield a plain case, the largest with one larger size, large ones and the other plain ones, while there is time."""
    seconds = inf if context.thorough else _SECONDS_OF_CASES if context.is_main_type else _SECONDS_IN_OTHER_TYPES
    until_s = time.monotonic() + seconds
    plain, large = accepted(context, "plain"), accepted(context, "large")
    largest = sorted(context.subject.suite.cases(context.dtypes, "sizes"), key=lambda case: -case.elements)
    first = itertools.islice(plain, 1), (case for case in largest[:1] if is_accepted(context, case))
    for count, case in enumerate(itertools.chain(*first, large, plain)):
        if count >= _LEAST_CASES and time.monotonic() > until_s:
            return
        yield case


def _run(context: Context, case: Case, count: int, fill: int | None = None) -> _Run:
    """Call the kernel on a number of threads, and once more for gradients; everything is made anew.

    `fill` is what memory that is not initialized shall hold.
    """
    subject = context.subject
    context.tell(case)
    call = _Run()
    values = case.build(context.device)
    seed_generators(subject.seed)
    try:
        with on_threads(count):
            if fill is not None:
                perturb_malloc(fill)  # last, or what was allocated since would be what the kernel finds
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


def _repeats(context: Context, case: Case, *, is_slow: bool) -> Iterator[int]:
    """Count for a while: a few times at least, and in large cases so often that a rare difference shows."""
    seconds = _SECONDS * (10 if context.thorough else 1)
    started = time.monotonic()
    for number in range(_MANY if case.elements >= _LARGE_ELEMENTS else _FEW):
        if number >= (_FEW_SLOW if is_slow else _FEW) and time.monotonic() - started > seconds:
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
        perturbed_no_more()


def _rarely_other(context: Context, case: Case) -> Finding | None:
    """Return a finding if one of a thousand small calls gives another result: what counts its calls is wrong at times."""
    subject = context.subject
    if subject.mutated:
        return None
    values = case.build(context.device)
    base: list[Tensor] | None = None
    until_s = time.thread_time() + _SECONDS_OF_MANY
    for number in range(_VERY_MANY):
        seed_generators(subject.seed)
        found = kernel_outputs(subject, values)
        base = found if base is None else base
        if not all(map(torch.equal, base, found)) and not all(map(same_bits, base, found)):
            message = f"{case.label}: one of {number + 1:,} equal calls gives another result, {ON_ONE_THREAD}"
            return Finding(message, case, "Something counts the calls, or is kept between them.")
        if time.thread_time() > until_s:
            break
    return None


def _keep_busy(device: str) -> None:
    """Queue work beside the next call on a GPU: a race shows where warps do not run as they do alone."""
    if device == "cpu":
        return
    with torch.cuda.stream(torch.cuda.Stream()):
        numbers = torch.ones(_BUSY_ELEMENTS, device=device)
        for _ in range(_BUSY_LAUNCHES):
            numbers.sin_()


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
        if differences(base.results, _run(context, case, 1, number).results):
            return True
        if number >= _LEAST_ALONE and time.thread_time() > until_s:
            break
    return False


def _remembers(case: Case, difference: Difference) -> Finding:
    message = f"{case.label}: {difference} changes after calls of other sizes"
    hint = "Something persists between calls: a static buffer that is too large now, or a cache by size or address."
    return Finding(message, case, hint)
