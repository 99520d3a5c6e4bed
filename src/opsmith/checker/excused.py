"""Writes the notes of a report on results that differ from the reference's and are right all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opsmith.checker.properties.agreement import DIFFERS_ONLY
from opsmith.checker.report import Result

__all__ = ["excused_notes"]


def excused_notes(results: Iterable[Result]) -> Iterator[str]:
    """Yield a note for each reason, with the properties and columns in which a kernel differs for it."""
    found: dict[str, dict[str, list[str]]] = {}
    for result in results:
        for reason in result.outcome.note.split("; "):
            if result.outcome.state == "passed" and reason.startswith(DIFFERS_ONLY):
                column = result.column.dtype or result.column.device
                found.setdefault(reason, {}).setdefault(result.name, []).append(column)
    for reason, names in found.items():
        listed = ", ".join(f"{name} ({', '.join(columns)})" for name, columns in names.items())
        yield f"{listed}: {reason}"
