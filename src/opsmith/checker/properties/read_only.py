"""Checks that a kernel does not write to its inputs for a while: it is called on inputs that cannot be written to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch

from opsmith.checker.calls import accepted, differentiated, is_gradient_of_body, kernel_outputs, quiet
from opsmith.checker.memory.read_only import in_read_only_memory
from opsmith.checker.outcome import Finding
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["written_and_put_back"]

# A hang in a child says nothing here.
_SILENCE_S = 8.0
_HINT = "Work on a copy: another thread may read the input meanwhile, and its memory may be mapped from a file."


def written_and_put_back(context: Context) -> Finding | None:
    """Return a finding if a call dies of inputs that cannot be written to, in a child of its own."""
    cases = list(_cases(context))
    died = _first_death(context, cases)
    # What dies where it could write has read outside of its inputs, which other properties look at.
    if died is None or _first_death(context, [died.case], is_writable=True) is not None:
        return None
    text = (
        f"{died.case.label}: it writes to an input{died.where}, and puts back what was there: on inputs in memory that "
    )
    return Finding(f"{text}cannot be written to it dies of {died.crash}", died.case, _HINT)


class _Death(NamedTuple):
    """The call that a child died of, in which part of it, and how."""

    case: Case
    where: str
    crash: str


def _first_death(context: Context, cases: Sequence[Case], *, is_writable: bool = False) -> _Death | None:
    """Make calls in a child, and return the one that it dies of."""
    at: tuple[int, str] = (0, "")

    def work(send: Send) -> None:
        for number, case in enumerate(cases):
            send((number, ""))
            values = in_read_only_memory(case.build(), context.subject.mutated, is_writable=is_writable)
            with quiet(), contextlib.suppress(Exception):
                kernel_outputs(context.subject, values)
            if not is_gradient_of_body(context.subject):
                send((number, " in its gradient"))
                with quiet(), contextlib.suppress(Exception):
                    _differentiate(context, case, is_writable)
        send((len(cases), ""))

    for message in in_child(work, silence_s=_SILENCE_S, until_s=context.until_s):
        if not isinstance(message, Ended):
            at = message
        elif message.crash and not message.hung and at[0] < len(cases):
            return _Death(cases[at[0]], at[1], message.crash)
    return None


def _cases(context: Context) -> Iterator[Case]:
    """Yield the plain calls, a large one, and one of each layout: what is not contiguous may take another path."""
    yield from accepted(context, "plain")
    yield from islice(accepted(context, "large"), 1)
    yield from islice(accepted(context, "layouts"), 6)


def _differentiate(context: Context, case: Case, is_writable: bool) -> None:
    values = in_read_only_memory(case.build(), is_writable=is_writable)
    results, leaves = differentiated(context.subject, values)
    if results:
        given = {str(index): torch.ones_like(result) for index, result in enumerate(results)}
        arrived = list(in_read_only_memory(given, is_writable=is_writable).values())
        torch.autograd.grad(results, list(leaves.values()), arrived, allow_unused=True)
