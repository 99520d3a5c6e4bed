"""Shows a judgement as text: the two verdicts with their reasons, the times, what the candidate is made of, the walls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opsmith._printable import printable
from opsmith.judging.batch import BatchReport
from opsmith.judging.result import Charge, Judgement, Part
from opsmith.report.judge.tables import reasons_of, speed_table, summary_table, verdict_of
from opsmith.report.table import BAD, GOOD, NEITHER, table_lines
from opsmith.report.terminal import Style, plain, wrapped
from opsmith.report.units import count_of

__all__ = ["batch_lines", "batch_text", "report_lines", "report_text"]

_WIDTH = 100
_MARKS = {"accepted": (GOOD, "passed"), "refused": (BAD, "failed"), "not judged": (NEITHER, "not run")}


def report_text(judgement: Judgement) -> str:
    """Return the whole judgement as text, without colours."""
    return "\n".join(report_lines(judgement))


def report_lines(
    judgement: Judgement, *, style: Style = plain, width: int = _WIDTH, verbose: bool = False
) -> Iterator[str]:
    """Yield the lines of a judgement; `verbose` shows what was asked, and what kept the candidate apart."""
    yield style(f"{judgement.candidate} for {judgement.task}, on {judgement.device} ({judgement.machine})", "head")
    yield from _charges("the task", judgement.task_charges, style, width)
    yield from _part("as posed", judgement.as_posed, style, width, verbose)
    yield from _part("as an operator", judgement.as_operator, style, width, verbose)
    if judgement.speeds:
        yield ""
        yield from table_lines(speed_table(judgement), style=style, width=width)
    dim = [f"{NEITHER} {sign.name}{_line(sign.line)}: {sign.message}" for sign in judgement.signs]
    dim += [f"{NEITHER} {note}" for note in judgement.notes]
    dim += [f"{NEITHER} not kept apart by {one}" for one in judgement.walls.missing]
    if verbose:
        dim += [f"{NEITHER} kept apart by {one}" for one in judgement.walls.in_force]
    if dim:
        yield ""
    for line in dim:
        yield from (style(part, "dim") for part in wrapped(printable(line), width))
    yield ""
    yield style(verdict_of(judgement), "passed" if judgement.ok else "failed")


def _line(line: int | None) -> str:
    return "" if line is None else f", line {line}"


def _part(name: str, part: Part, style: Style, width: int, verbose: bool) -> Iterator[str]:
    mark, kind = _MARKS[part.state]
    about = part.note or f"{count_of(part.calls, 'call')} compared"
    yield f"{style(mark, kind)} {name}: {style(part.state, kind)}{f', {about}' if about else ''}"
    yield from _reasons(part.charges, style, width)
    if verbose:
        for asked, state in part.properties.items():
            yield from (style(f"    {line}", "dim") for line in wrapped(f"{asked}: {state}", width - 4))


def _charges(name: str, charges: Sequence[Charge], style: Style, width: int) -> Iterator[str]:
    if charges:
        yield f"{style(BAD, 'failed')} {name}: {style('refused', 'failed')}"
        yield from _reasons(charges, style, width)


def _reasons(charges: Sequence[Charge], style: Style, width: int) -> Iterator[str]:
    for head, message in reasons_of(charges):
        first, *rest = wrapped(f"{head}: {message}", width - 4)
        yield f"    {first.replace(head, style(head, 'failed'), 1)}"
        yield from (f"    {line}" for line in rest)


def batch_text(report: BatchReport) -> str:
    """Return what a batch came to as text, without colours."""
    return "\n".join(batch_lines(report))


def batch_lines(report: BatchReport, *, style: Style = plain, width: int = _WIDTH) -> Iterator[str]:
    """Yield the lines of a batch: a row for each candidate, and the totals."""
    yield from table_lines(summary_table(report), style=style, width=width)
    yield ""
    yield style(report.totals, "passed" if report.ok else "failed")
