"""Is the reference too slow for large inputs? One that loops in Python takes a second where a kernel takes a millisecond.

The oracle runs it several times for each input, and a check of minutes is a check that nobody makes.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from opsmith.check.recipe import Case
from opsmith.check.subject import Subject

__all__ = ["paced"]

# The largest of the ordinary sizes, and how long the reference may take there. What works on whole tensors takes less
# than a millisecond, a loop over the elements some fifty.
_PROBED = "= 4099"
_MOST_S = 0.02
_MOST_ELEMENTS_WHEN_SLOW = 1 << 16


def paced(subject: Subject) -> Subject:
    """Return a subject without the largest inputs where its reference is slow, and a note that says so."""
    if subject.signature is None or not subject.dtypes:
        return subject
    cases = [case for case in subject.suite.cases(subject.dtypes[0], "sizes") if case.label.endswith(_PROBED)]
    if not cases:
        return subject
    _seconds_of(subject, subject.suite.plain(subject.dtypes[0]))  # what a first call alone takes does not count
    seconds, slowest = max(((_seconds_of(subject, case), case) for case in cases), key=lambda pair: pair[0])
    if seconds <= _MOST_S:
        return subject
    note = (
        f"the reference takes {seconds:.2f} s for {slowest.label}: larger inputs are left out (--thorough tries them)"
    )
    return replace(subject, most_elements=_MOST_ELEMENTS_WHEN_SLOW, notes=(*subject.notes, note))


def _seconds_of(subject: Subject, case: Case) -> float:
    """Return how long the reference takes on the CPU, the better of two; 0 where it does not take the input."""
    taken = []
    for _ in range(2):
        values = case.build()
        started = time.perf_counter()
        try:
            with torch.no_grad():
                subject.results(subject.reference, values)
        except Exception:
            return 0.0
        taken.append(time.perf_counter() - started)
    return min(taken)
