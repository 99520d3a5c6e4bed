"""Looks for modes that a call leaves changed: on any path through a kernel, in its gradient, and where it raises."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from opsmith.checker.calls import accepted, differentiated, is_accepted, is_gradient_of_body, quiet
from opsmith.checker.memory.modes import changed_modes, modes
from opsmith.checker.outcome import Finding
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.timed_cases import interleaved
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.refused_calls import RefusedCall, refused_calls
from opsmith.subject.case import Case

__all__ = ["left_changed"]

_HINT = "Put the mode back before the call ends, also where it raises: the next operator computes in it."
# One call of each kind, of those that are quick.
_GROUPS = ("layouts", "scalars", "special", "equal", "values", "empty", "sizes")
_MOST, _MOST_ELEMENTS = 60, 1 << 14
_SILENCE_S = 5.0


def left_changed(context: Context) -> tuple[Finding | None, int]:
    """Return a finding if a call changes a mode, and how many calls were looked at."""
    if hasattr(context.subject.call, "_opoverload"):
        importlib.import_module("torch._dynamo")  # what a first call would import may set modes, once
    count = 0
    with quiet():
        whole = [*accepted(context, "plain"), *islice(accepted(context, "large"), 1)]
        for case in [*whole, *_of_each_kind(context)]:
            context.tell(case)
            count += 1
            if words := _changed_by_call(context, case, with_gradient=case in whole):
                return Finding(f"{case.label}: the call changes {words}", case, _HINT), count
        for case in whole[:1]:
            if _silences_warnings(context, case):
                return Finding(f"{case.label}: the call changes warnings.filters", case, _HINT), count
    return _changed_where_it_raises(context), count


def _of_each_kind(context: Context) -> Iterator[Case]:
    cases = interleaved(context.subject.suite.cases(context.dtypes, *_GROUPS))
    quick = (case for case in cases if case.elements <= _MOST_ELEMENTS and is_accepted(context, case))
    return islice(quick, _MOST)


def _changed_by_call(context: Context, case: Case, *, with_gradient: bool) -> str:
    """Return which modes a call changes, and its gradient."""
    subject = context.subject
    values = case.build(context.device)
    # What PyTorch's threads do costs more than the call.
    before = modes(in_all_threads=with_gradient)
    generator = torch.get_rng_state()
    with contextlib.suppress(Exception):
        subject.kernel(*subject.arguments(values), **subject.keyword_arguments(values))
    words = changed_modes(before, modes(in_all_threads=with_gradient))
    if words or not with_gradient or is_gradient_of_body(subject):
        return words or _reseeded(context, case, generator)
    values = case.build(context.device)
    with contextlib.suppress(Exception):
        results, leaves = differentiated(subject, values)
        if results:
            total = sum((result.sum() for result in results[1:]), results[0].sum())
            torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    words = changed_modes(before, modes())
    return f"{words}, in its gradient" if words else _reseeded(context, case, generator)


def _reseeded(context: Context, case: Case, before: Tensor) -> str:
    """Say whether the kernel has moved the generator of random numbers, where the reference draws none."""
    if torch.equal(before, torch.get_rng_state()):
        return ""
    torch.set_rng_state(before)
    context.subject.results(context.subject.reference, case.build(context.device))
    return "" if not torch.equal(before, torch.get_rng_state()) else "the state of the generator of random numbers"


def _silences_warnings(context: Context, case: Case) -> bool:
    """Whether a call adds a filter of warnings each time: what a first call imports may add some, once."""
    subject = context.subject
    with warnings.catch_warnings():
        warnings.resetwarnings()
        values = case.build(context.device)
        with contextlib.suppress(Exception):
            subject.kernel(*subject.arguments(values), **subject.keyword_arguments(values))
        return bool(warnings.filters)


def _changed_where_it_raises(context: Context) -> Finding | None:
    """Make calls that are refused, in a child: it is not this property's if one of them crashes."""
    if context.device != "cpu":
        return None
    calls = list(refused_calls(context))
    at, words = 0, ""
    if calls:
        for message in in_child(lambda send: _make_all(context, calls, send), silence_s=_SILENCE_S):
            if not isinstance(message, Ended):
                at, words = message
    if not words:
        return None
    return Finding(f"{calls[at].label}: where the call raises, it has changed {words}", calls[at].case, _HINT)


def _make_all(context: Context, calls: list[RefusedCall], send: Send) -> None:
    for number, call in enumerate(calls):
        send((number, ""))
        before = modes(in_all_threads=False)
        if call.raises(context) and (words := changed_modes(before, modes(in_all_threads=False))):
            send((number, words))
            return
