"""Checks that a call leaves nothing behind: no results for the next one, and no mode of the processor or of PyTorch.

A result that is kept by the address, the identity, the version or a few numbers of an input is wrong as soon as the
input is changed in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.bits import differences
from opsmith.checker.calls import (
    accepted,
    accepts,
    differentiated,
    is_gradient_of_body,
    other_numbers,
    quiet,
    seed_generators,
)
from opsmith.checker.memory.guard import sheltered
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import roughly_equal
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.left_changed import left_changed
from opsmith.checker.properties.promises import mixed_up
from opsmith.checker.properties.surroundings import depends_on_modes
from opsmith.subject.case import Case

__all__ = ["state"]

_KEPT_HINT = "A tensor's address, identity, version counter or first numbers do not say what it holds: compute it anew."
_Results = dict[str, Tensor]
# How often two calls are made in turns.
_TURNS = 2


def state(context: Context) -> Outcome:
    """Modes are as they were, and results are those of what the inputs hold now, in all modes that the caller may have."""
    finding, count = left_changed(context)
    finding = finding or depends_on_modes(context) or mixed_up(context)
    if finding is not None:
        return failed(finding, inputs=count)
    with quiet(), sheltered(context.device):
        for case in () if context.subject.mutated else accepted(context, "plain"):
            context.tell(case)
            count += 1
            if words := _remembered(context, case):
                return failed(Finding(f"{case.label}: {words}", case, _KEPT_HINT), inputs=count)
    return passed(count) if count else not_run("no input is accepted by both the reference and the kernel")


def _remembered(context: Context, case: Case) -> str:
    """Return how results are those of what an input held before, or ""."""
    values = case.build(context.device)
    for words, change in _changes(context, case, values):
        earlier = _results(context, values)
        change()
        if not _takes(context, values):
            continue
        found, expected = _results(context, values), _results(context, _copied(values))
        if earlier is None or found is None or expected is None or not differences(expected, found):
            continue
        is_stale = not differences(earlier, found)
        if is_stale and _is_steady(context, _copied(values), expected):
            return f"when {words} in place between two calls, the results are those from before"
        # Where numbers begin at another address, some kernels add them up in another order.
        names = [name for name in expected if name in found]
        is_near = roughly_equal([found[n] for n in names], [expected[n] for n in names])
        if not is_stale and not is_near and _depends_on_tensors(context, values):
            return f"when {words} in place between two calls, the results are not those for the numbers there"
    return ""


def _is_steady(context: Context, values: Mapping[str, Any], expected: _Results) -> bool:
    again = _results(context, values)
    return again is not None and not differences(expected, again)


def _depends_on_tensors(context: Context, values: Mapping[str, Any]) -> bool:
    """Whether tensors and copies of them that are called in turns give results of their own each time.

    What depends on memory that an earlier call has left changes with the calls before, and not with the tensors.
    """
    copies = _copied(values)
    found, expected = _results(context, values), _results(context, copies)
    if found is None or expected is None or not differences(expected, found):
        return False
    turns = ((values, found), (copies, expected))
    return all(_is_steady(context, given, results) for _ in range(_TURNS) for given, results in turns)


def _changes(context: Context, case: Case, values: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the ways to change the inputs in place, in words and as a function; no version counter notices."""
    other = other_numbers(case)
    if not accepts(context, other):
        return
    given = other.build(context.device)
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor) and value.numel() > 0}
    for name, tensor in tensors.items():
        flat, new = tensor.data.view(-1), given[name].reshape(-1)
        yield f"{name} changes", partial(_put, flat, new)
        for at in dict.fromkeys((flat.numel() - 1, flat.numel() // 3)):
            yield f"one element of {name} changes", partial(_put_far, flat, at, new)
        if flat.numel() > 3:
            yield f"two elements of {name} are exchanged", partial(_exchange, flat, 1, flat.numel() - 2)


def _put(flat: Tensor, numbers: Tensor) -> None:
    flat.copy_(numbers)


def _put_far(flat: Tensor, at: int, numbers: Tensor) -> None:
    flat[at].copy_(_far(flat[at], numbers))


def _far(old: Tensor, numbers: Tensor) -> Tensor:
    """Return the number that is farthest from an old one: not all results show a small change."""
    if numbers.dtype is torch.bool:
        return ~old
    distance = (numbers.to(torch.float64) - old.to(torch.float64)).abs()
    return numbers[int(distance.nan_to_num(0.0).argmax())]


def _exchange(flat: Tensor, one: int, other: int) -> None:
    kept = flat[one].clone()
    flat[one].copy_(flat[other])
    flat[other].copy_(kept)


def _takes(context: Context, values: Mapping[str, Any]) -> bool:
    try:
        context.subject.results(context.subject.reference, _copied(values))
    except Exception:
        return False
    return True


def _results(context: Context, values: Mapping[str, Any]) -> _Results | None:
    """Return copies of a call's results and of its gradients, or None where it raises."""
    subject = context.subject
    seed_generators(subject.seed)
    try:
        with torch.no_grad():
            outputs = subject.kernel_results(values)
        found = {f"output {index}": output.detach().clone() for index, output in enumerate(outputs)}
    except Exception:
        return None
    if not is_gradient_of_body(subject):
        with contextlib.suppress(Exception):
            results, leaves = differentiated(subject, values)
            total = sum((result.sum() for result in results[1:]), results[0].sum())
            gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
            for name, gradient in zip(leaves, gradients, strict=True):
                if gradient is not None:
                    found[f"the gradient of {name}"] = gradient.clone()
    return found


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().clone()
        return [copy(item) for item in value] if isinstance(value, list) else value

    return {name: copy(value) for name, value in values.items()}
