"""Arranges judgements for text and pages: reasons, times, and a row for each candidate of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opsmith._printable import printable
from opsmith.judging.batch import BatchReport
from opsmith.judging.result import Charge, Judgement, Part, Speed
from opsmith.report.table import BAD, GOOD, NEITHER, Table
from opsmith.report.units import duration, percent

__all__ = ["reasons_of", "speed_table", "summary_table", "verdict_of"]

_MARKS = {"accepted": GOOD, "refused": BAD, "not judged": NEITHER}
# In characters: a reason, and in the table of a batch why there is none.
_LONG, _REASON = 400, 80


def reasons_of(charges: Sequence[Charge]) -> Iterator[tuple[str, str]]:
    """Yield each charge as its name with where it was seen, and what was seen."""
    for charge in charges:
        where = f" ({charge.where})" if charge.where and "\n" not in charge.where else ""
        # A candidate's own words may hold what a terminal takes for a command.
        message = printable(" ".join(charge.message.split()))
        yield f"{charge.refusal}{where}", message if len(message) <= _LONG else f"{message[: _LONG - 3]}..."


def verdict_of(judgement: Judgement) -> str:
    """Return in one line what a judgement comes to."""
    verdict = "accepted as posed" if judgement.ok else "refused as posed"
    if judgement.failure:
        verdict = "nothing is known: the judge failed"
    elif judgement.task_charges:
        verdict = "the task is refused"
    elif judgement.as_posed.state == "not judged":
        verdict = "not judged as posed"
    elif judgement.ok:
        operator = judgement.as_operator.state
        verdict += {"accepted": " and as an operator", "refused": ", not as an operator", "not judged": ""}[operator]
    return f"{verdict} · seed {judgement.seed} · {judgement.seconds:.1f} s"


def speed_table(judgement: Judgement) -> Table:
    """Return the times of the calls that the task poses."""
    rows = tuple(_speed(one) for one in judgement.speeds)
    note = "limit: the part of the time that the machine's memory needs for the inputs and results."
    columns = ("call", "candidate", "95 %", "against", "", "speedup", "95 %", "limit")
    return Table("Times", columns, "lrllrrll", rows, note)


def _speed(one: Speed) -> tuple[str, ...]:
    own = f"[{duration(one.low_s)}, {duration(one.high_s)}]"
    if one.other_s is None or one.ratio is None:
        other = ("", "", "", "")
    else:
        other = (
            one.against,
            duration(one.other_s),
            f"{one.ratio:.2f}x",
            f"[{one.ratio_low:.2f}, {one.ratio_high:.2f}]",
        )
    limit = "" if one.limit_s is None or one.median_s <= 0 else percent(min(1.0, one.limit_s / one.median_s))
    return (one.label, duration(one.median_s), own, *other, limit)


def summary_table(report: BatchReport) -> Table:
    """Return a row for each judgement of a batch."""
    rows = tuple(_summary(one) for one in report.judgements)
    return Table("Judgements", ("task", "candidate", "as posed", "as an operator", "speedup", "reason"), "llllrl", rows)


def _summary(one: Judgement) -> tuple[str, ...]:
    charges = (*one.task_charges, *one.as_posed.charges, *one.as_operator.charges)
    speed = next((speed for speed in one.speeds if speed.ratio is not None), None)
    ratio = "" if speed is None else f"{speed.ratio:.2f}x"
    reason = str(charges[0].refusal) if charges else one.as_posed.note[:_REASON]
    return (one.task, one.candidate, _mark(one.as_posed), _mark(one.as_operator), ratio, reason)


def _mark(part: Part) -> str:
    return _MARKS[part.state]
