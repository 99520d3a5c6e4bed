"""Shows what `opsmith tune` has measured and chosen: a table in a terminal, and everything as plain data."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from opsmith.report.table import BAD, GOOD, Table, table_lines
from opsmith.report.terminal import Style, plain
from opsmith.report.units import duration
from opsmith.tuning.file import configurations
from opsmith.tuning.measure import Measured, Tuned

__all__ = ["as_data", "tuned_lines"]


def tuned_lines(tuned: Tuned, *, style: Style = plain, width: int = 120) -> Iterator[str]:
    """Yield a table of the times, a row for each contender and a column for each size, and what was never chosen."""
    yield f"{tuned.operator}   {tuned.phase}   {tuned.machine}, torch {tuned.torch}"
    yield from table_lines(_table(tuned), style=style, width=width)
    for measured in tuned.measured:
        if (gain := _gain(tuned, measured)) is not None:
            yield f"  {_size(measured)}: {gain:.2f}x as fast as what is chosen now"
    if tuned.never_chosen:
        yield f"  never the best, so they need not be compiled: {', '.join(each.label for each in tuned.never_chosen)}"


def as_data(tuned: Tuned) -> dict[str, Any]:
    """Return all that was measured and chosen."""
    return {
        "operator": tuned.operator,
        "phase": tuned.phase,
        "machine": tuned.machine,
        "torch": tuned.torch,
        "configurations": configurations(tuned),
        "measured": [
            {
                "sizes": dict(each.sizes),
                "now": dict(each.own),
                "seconds": {tuned.contenders[number].label: dict(taken) for number, taken in each.seconds.items()},
                "errors": {tuned.contenders[number].label: text for number, text in each.errors.items()},
            }
            for each in tuned.measured
        ],
    }


def _table(tuned: Tuned) -> Table:
    columns = ("", *(_size(measured) for measured in tuned.measured))
    rows = [
        (each.label, *(_cell(tuned, measured, each.number) for measured in tuned.measured)) for each in tuned.contenders
    ]
    return Table("Configurations", columns, "l" + "r" * len(tuned.measured), tuple(rows), f"{GOOD} is chosen there")


def _cell(tuned: Tuned, measured: Measured, number: int) -> str:
    if number in measured.errors:
        return f"{BAD} {measured.errors[number].partition(':')[0]}"
    seconds = measured.point.seconds.get(number)
    if seconds is None:
        return "–"
    return f"{f'{GOOD} ' if tuned.choice(measured.sizes) == number else ''}{duration(seconds)}"


def _gain(tuned: Tuned, measured: Measured) -> float | None:
    """Return how many times as fast the choice is as the operator as it is, over the types together."""
    choice = tuned.choice(measured.sizes)
    taken = measured.seconds.get(-1 if choice is None else choice, {})
    ratios = [measured.own[dtype] / seconds for dtype, seconds in taken.items() if dtype in measured.own]
    return statistics.geometric_mean(ratios) if ratios else None


def _size(measured: Measured) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in measured.sizes.items())
