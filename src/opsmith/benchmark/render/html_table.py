"""The figures below the plots, as a table: everything that the plots show can be read and copied."""

from __future__ import annotations

from html import escape

from opsmith.benchmark.render.grid import Row, Table, verdict_text
from opsmith.benchmark.render.units import duration, percent, size
from opsmith.benchmark.result import Timing
from opsmith.benchmark.statistics import Interval

__all__ = ["figures"]


def figures(table: Table) -> str:
    """Return the table: a row for each size, the operator's time, each competitor's ratio and time, limit and memory."""
    has_memory = any(timing.peak_bytes is not None for timing in table.timings)
    heads = [table.head, table.own, *table.others, "of the limit", *(["memory"] if has_memory else [])]
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    rows = "\n".join(_row(table, row, has_memory) for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"


def _row(table: Table, row: Row, has_memory: bool) -> str:
    cells = [f'<th scope="row">{escape(row.label)}</th>', f"<td>{_own(row.own)}</td>"]
    cells += [f"<td>{_against(row, name)}</td>" for name in table.others]
    cells.append(f"<td>{_limit(row.own)}</td>")
    if has_memory:
        eager = row.timings.get("eager")
        cells.append(f"<td>{_memory(row.own)}<small>{f'eager {_memory(eager)}' if eager else ''}</small></td>")
    return f"<tr>{''.join(cells)}</tr>"


def _own(timing: Timing | None) -> str:
    if timing is None or timing.time is None or timing.is_wrong:
        return '<span class="wrong">wrong</span>' if timing is not None and timing.is_wrong else "–"
    wall = ""
    if timing.wall is not None and timing.wall != timing.time:
        wall = f"<small>{duration(timing.wall.middle)} by the clock</small>"
    return f"<b>{duration(timing.time.middle)}</b><small>{_ends(timing.time)}</small>{wall}"


def _against(row: Row, name: str) -> str:
    timing, verdict = row.timings.get(name), row.verdict(name)
    if timing is None or timing.time is None or timing.is_wrong:
        return '<span class="wrong">wrong</span>' if timing is not None and timing.is_wrong else "–"
    ratio = f'<span class="{verdict.kind}">{verdict_text(verdict)}</span>' if verdict is not None else "–"
    return f"{ratio}<small>{duration(timing.time.middle)}</small>{_by_the_clock(row, name)}"


def _by_the_clock(row: Row, name: str) -> str:
    verdict, timing = row.verdict(name, "wall"), row.timings[name]
    if verdict is None or timing.wall == timing.time:
        return ""
    return f'<small>by the clock: <span class="{verdict.kind}">{verdict_text(verdict)}</span></small>'


def _limit(timing: Timing | None) -> str:
    if timing is None or timing.share is None:
        return "–"
    full = min(100.0, 100 * timing.share)
    bar = f'<span class="share" aria-hidden="true"><i style="width:{full:.0f}%"></i></span>'
    return f"{bar}{percent(timing.share)}<small>{escape(timing.bound)}{' *' if timing.notes else ''}</small>"


def _memory(timing: Timing | None) -> str:
    return "–" if timing is None or timing.peak_bytes is None else size(timing.peak_bytes)


def _ends(interval: Interval) -> str:
    return f"[{duration(interval.low)}, {duration(interval.high)}]"
