"""Leaves out the sizes for which a reference is slow, or takes gigabytes: one that loops in Python would take minutes.

So does Triton's interpreter (TRITON_INTERPRET=1), which runs a kernel's blocks one after another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch

from opsmith import _env
from opsmith.checker.process.clock import now_s
from opsmith.checker.process.memory_limit import limited_memory
from opsmith.checker.process.threads import on_threads
from opsmith.subject.blame import is_out_of_memory
from opsmith.subject.case import Case
from opsmith.subject.choices_of_sizes import about_size
from opsmith.subject.subject import Subject

__all__ = ["without_slow_sizes"]

# How long the reference may take for one input. What works on whole tensors takes less than a millisecond, a loop over
# some thousand elements fifty.
_MOST_S = 0.014
# What takes so long once is slow, whatever else the machine does.
_FAR_TOO_LONG_S = 0.06
# The smaller half of so many sizes takes no time, and of the others every fourth shows between which ones it begins.
_MANY, _STRIDE = 8, 4
# How many blocks of a kernel the interpreter may run for one input: each takes about a millisecond.
_MOST_BLOCKS = 64


def without_slow_sizes(subject: Subject) -> Subject:
    """Return a subject without the sizes for which its reference is slow, and with a note that says so."""
    if subject.signature is None or not subject.dtypes:
        return subject
    dtypes = subject.dtypes[0]
    _seconds_of(subject, subject.suite.plain(dtypes))  # the first call alone pays for initialization
    by_name: dict[str, list[Case]] = {}
    # What is left out for the usual options is left out for others too.
    for case in (case for case in subject.suite.cases(dtypes, "sizes", "large") if not case.has_options):
        # "N = 4099", "the last element decides, N = 66001" and "B x N = 257 x 259"
        by_name.setdefault(about_size(case.label).partition(" = ")[0], []).append(case)
    left_out: set[str] = set()
    slow: list[str] = []
    for cases in by_name.values():
        ascending = sorted(cases, key=_order)
        first = _first_slow(subject, ascending)
        if first is not None:
            left_out |= {case.label for case in ascending[first.index :]}
            slow.append(f"{first.cost} for {about_size(ascending[first.index].label)}")
    if not slow:
        return subject
    note = f"{', '.join(slow)}: inputs of that size and larger are left out (--thorough tries them)"
    return replace(subject, left_out=frozenset(left_out), notes=(*subject.notes, note))


def _order(case: Case) -> int:
    """Return the size that a case is about: with a large one the others are smaller. Of a shape, the elements."""
    size = case.label.rpartition(" = ")[2]
    return int(size) if size.isdecimal() else case.elements


@dataclass(frozen=True)
class _Slow:
    """A case, by its index, that the reference or the interpreter takes too long for.

    `seconds` are inf where it takes too much memory. `blocks` are those that the interpreter would run.
    """

    index: int
    seconds: float
    blocks: int = 0

    @property
    def cost(self) -> str:
        """What it takes, in words."""
        if self.blocks:
            return f"the interpreter runs {self.blocks} blocks"
        return "the reference takes gigabytes" if self.seconds == inf else f"the reference takes {self.seconds:.2f} s"


def _first_slow(subject: Subject, ascending: list[Case]) -> _Slow | None:
    """Return the smallest slow case, from small to large, so that no call takes much longer than what counts as slow."""
    last = len(ascending) - 1
    begin = len(ascending) // 2 if len(ascending) >= _MANY else 0
    for probe in (*range(begin, last, _STRIDE), last):
        slow = _slow_at(subject, ascending, probe)
        while slow is not None and slow.index > begin:
            middle = _slow_at(subject, ascending, (begin + slow.index) // 2)
            slow, begin = (middle, begin) if middle is not None else (slow, (begin + slow.index) // 2 + 1)
        if slow is not None:
            return slow
        begin = probe + 1
    return None


def _slow_at(subject: Subject, cases: list[Case], index: int) -> _Slow | None:
    if (blocks := _interpreted_blocks(subject, cases[index])) > _MOST_BLOCKS:
        return _Slow(index, 0.0, blocks)
    seconds = _seconds_of(subject, cases[index])
    return _Slow(index, seconds) if seconds > _MOST_S else None


def _interpreted_blocks(subject: Subject, case: Case) -> int:
    """Return how many blocks Triton's interpreter would run for an input; 0 where it is not asked for."""
    if subject.operator is None or "cpu" not in subject.devices or _env.read("TRITON_INTERPRET") is None:
        return 0
    from opsmith.runtime.interpret import interpreted_blocks

    return interpreted_blocks(subject.operator.definition, case.build())


def _seconds_of(subject: Subject, case: Case) -> float:
    """Return the processor time of the reference, the best of three where it is near the limit; 0 if it rejects the input.

    It is inf where a reference that compares all pairs, say, asks for more memory than a check lets it have.
    """
    taken: list[float] = []
    values: dict[str, Any] = case.build()
    for _ in range(3):
        started = now_s("cpu")
        try:
            # On one thread: on a busy machine threads wait for each other longer than they work.
            with torch.no_grad(), on_threads(1), limited_memory():
                subject.results(subject.reference, values)
        except Exception as error:
            return inf if is_out_of_memory(error) else 0.0
        taken.append(now_s("cpu") - started)
        if taken[-1] <= _MOST_S or taken[-1] > _FAR_TOO_LONG_S:
            break
    return min(taken)
