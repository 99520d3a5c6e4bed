"""Finds out whether a failing call fails by itself, in a process that has made no call, or only after earlier ones.

What fails only after earlier ones has kept something of them, or its threads are in each other's way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from opsmith.checker.judge import MEASURED, message_of
from opsmith.checker.outcome import Finding
from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["Answer", "explain", "judge_in_child"]

# How long one try may take by the clock, and all of them for a finding: by the clock, and of processor time, which counts
# on a busy machine.
_TRY_S, _ALL_S, _PROCESSOR_S = 15.0, 40.0, 4.0
# As many calls are made again at most; a state that takes more of them is not found.
_MOST_CALLS = 4096
# So often a call is made by itself before it counts as right there.
_TRIES = 2

How = Literal["alone", "after", "threaded", "unsteady"]


@dataclass(frozen=True)
class Answer:
    """What a process of its own says of a call: what is wrong with it, or how it ended; both are empty where it is right."""

    message: str = ""
    crash: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the call failed in any way."""
        return bool(self.message or self.crash)


def judge_in_child(
    context: Context, name: str, case: Case, earlier: Sequence[Case] = (), *, threads: int | None = None
) -> Answer:
    """Judge a call in a child, after the earlier ones, on so many threads instead of PyTorch's."""

    def work(send: Send) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        send(message_of(replace(context, tell=_tell_nobody), name, case, earlier))

    message = ""
    for sent in in_child(work, silence_s=_TRY_S, until_s=context.until_s):
        if isinstance(sent, Ended):
            # An exception of the check's own is not an answer.
            died = bool(sent.crash) and sent.crash != "exit status 1"
            return Answer(message, sent.crash if died and not message else "")
        message = sent
    return Answer(message)


def _tell_nobody(case: object) -> None:
    """Report nothing: the finding is known."""


def explain(context: Context, name: str, finding: Finding, history: Sequence[Case]) -> tuple[Finding, How]:
    """Return a finding at a call that shows it in a new process, and whether it does by itself or after earlier calls.

    `history` are the calls of the process that found it, in order. As few of them as show it are kept. "threaded" is
    what fails after them on several threads alone, and "unsteady" what failed neither by itself nor after them: it happens
    now and then.
    """
    assert finding.case is not None
    until_s = min(time.monotonic() + _ALL_S, context.until_s)
    wanted = replace(context, until_s=until_s)
    tried = [finding.case, *([finding.first] if finding.first not in (None, finding.case) else [])]
    for case in tried:
        assert case is not None
        for _ in range(1 if name not in MEASURED else _TRIES):
            if (answer := judge_in_child(wanted, name, case)).is_wrong:
                if case == finding.case:
                    return finding, "alone"
                return replace(finding, case=case, message=_renewed(finding.message, answer.message)), "alone"
    for case in tried:
        assert case is not None
        if earlier := _fewest_before(wanted, name, case, [*history][-_MOST_CALLS:]):
            answer = judge_in_child(wanted, name, case, earlier)
            found = replace(
                finding, case=case, earlier=tuple(earlier), message=_renewed(finding.message, answer.message)
            )
            # A first call starts the threads, one after another, and only the later ones are in each other's way.
            is_state = judge_in_child(wanted, name, case, earlier, threads=1).is_wrong
            return found, "after" if is_state else "threaded"
    return finding, "unsteady"


def _renewed(old: str, new: str) -> str:
    """Return what was said of a call, for another one: what is particular about it is in the first words."""
    return new or old


def _spent_s() -> float:
    """Return the processor time of all children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    return tuple(recipe.shape for recipe in case.tensors().values())


class _Same:
    """A call, hashed by what it looks like: equal calls are tried once."""

    def __init__(self, case: Case) -> None:
        self.case, self.shapes, self._text = case, _shapes(case), repr(case.arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


# As many calls of the same shapes are tried alone.
_SINGLES = 6


def _fewest_before(context: Context, name: str, case: Case, history: list[Case]) -> list[Case]:
    """Return few calls after which a call fails, in order, or nothing where it does after none of them."""

    begun_s = _spent_s()

    def fails(earlier: list[Case]) -> bool:
        has_time = time.monotonic() < context.until_s and _spent_s() - begun_s < _PROCESSOR_S
        return has_time and judge_in_child(context, name, case, earlier).is_wrong

    # What is kept is often kept by shape, so one call of the same shapes is enough.
    shapes = _shapes(case)
    alike = [other for other in dict.fromkeys(map(_Same, history)) if other.shapes == shapes and other.case != case]
    for other in alike[:_SINGLES]:
        if fails([other.case]):
            return [other.case]
    # The calls just before it, twice as many each time.
    count = 1
    found: list[Case] = []
    while not found:
        if fails(history[-count:]):
            found = history[-count:]
        elif count >= len(history):
            return []
        count *= 2
    # Then half of what is left is dropped, a quarter, ... as long as it fails without.
    size = max(1, len(found) // 2)
    while True:
        at = 0
        while at < len(found):
            if len(found) > 1 and fails(fewer := found[:at] + found[at + size :]) and fewer:
                found = fewer
            else:
                at += size
        if size == 1:
            return found
        size //= 2
