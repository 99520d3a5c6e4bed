"""Writes the notes of a report on what a check had no time for."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.checker.report import Result

__all__ = ["left_out_notes"]


def left_out_notes(results: list[Result], *, is_limited: bool) -> Iterator[str]:
    """Yield notes on what was left out, if anything: whole checks, and inputs of others."""
    if without := [result for result in results if result.outcome.is_out_of_time]:
        listed = ", ".join(dict.fromkeys(result.name for result in without))
        count = f"{len(without)} of {len(results)} checks"
        yield f"{count} did not fit into the time: {listed}; a longer limit includes them"
    cut = [result for result in results if result.outcome.left_out]
    if not cut:
        return
    columns: dict[str, list[str]] = {}
    for result in cut:
        outcome = result.outcome
        total = outcome.inputs + outcome.refused + outcome.left_out
        where = result.column.dtype or result.column.device
        columns.setdefault(result.name, []).append(f"{where} {outcome.left_out} of {total}")
    # Four properties look at the same calls.
    names: dict[str, list[str]] = {}
    for name, texts in columns.items():
        names.setdefault(", ".join(texts), []).append(name)
    listed = "; ".join(f"{', '.join(those)} ({text})" for text, those in names.items())
    remedy = "a longer limit" if is_limited else "--thorough"
    yield f"inputs did not fit into the time, the later ones of a fixed order: {listed}; {remedy} tries them"
