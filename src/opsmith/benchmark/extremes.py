"""Chooses the two sizes that say most about an operator: the smallest of the usual ones and the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opsmith.benchmark.workload import Workload, workloads
from opsmith.errors import ArgumentError
from opsmith.subject.subject import Subject

__all__ = ["extreme_workloads"]

_USUAL = "float32"


def extreme_workloads(
    subject: Subject, device: str, dtype: str | None = None, sizes: Sequence[Mapping[str, int]] = ()
) -> list[Workload]:
    """Return the workloads of the sizes given by name, else the one with the fewest bytes and the one with the most.

    The element type is float32 where the operator takes that and no other is given. Raises ArgumentError for sizes and
    types that the operator does not have, and where it has none.
    """
    found = sorted(
        workloads(subject, device, [dtype or _usual_dtype(subject)], sizes), key=lambda workload: workload.bytes_in
    )
    if not found:
        raise ArgumentError(f"{subject.name} has no size to time it at: pass sizes or examples")
    return found if sizes else list({0: found[0], len(found) - 1: found[-1]}.values())


def _usual_dtype(subject: Subject) -> str:
    # Of an operator with several template parameters the floating one counts, which is called T.
    known = [letters.get("T") or next(iter(letters.values()), "") for letters in subject.dtypes]
    return _USUAL if _USUAL in known or not known else known[0]
