"""Draws judgements as an HTML page: one file that needs no other, no script and no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from opsmith.checker.as_json import machine_facts
from opsmith.judging.batch import BatchReport
from opsmith.judging.result import Charge, Judgement, Part
from opsmith.report.judge.tables import reasons_of, speed_table, summary_table, verdict_of
from opsmith.report.page import Link, made_on, page
from opsmith.report.table import Table
from opsmith.report.units import count_of

__all__ = ["judgements_as_html"]


@dataclass(frozen=True)
class Verdict:
    """One verdict, as the template takes it; `asked` are properties and how they came out."""

    name: str
    kind: str
    state: str
    about: str
    reasons: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Section:
    """One judgement, as the template takes it."""

    anchor: str
    title: str
    about: str
    task_reasons: tuple[tuple[str, str], ...]
    verdicts: tuple[Verdict, ...]
    times: Table | None
    signs: tuple[str, ...]
    walls: tuple[str, ...]
    missing: tuple[str, ...]


def judgements_as_html(judgements: Sequence[Judgement]) -> str:
    """Return a page with all judgements."""
    links = [
        Link(f"j{number}", f"{one.candidate} for {one.task}", "passed" if one.ok else "failed", _about(one))
        for number, one in enumerate(judgements)
    ]
    accepted = sum(one.ok for one in judgements)
    several = len(judgements) > 1
    headline = (
        f"{accepted} of {count_of(len(judgements), 'candidate')} accepted" if several else verdict_of(judgements[0])
    )
    return page(
        "judge",
        title=f"opsmith judge: {', '.join(dict.fromkeys(one.task for one in judgements))}",
        tool="opsmith judge",
        kind="passed" if accepted == len(judgements) else "failed",
        headline=headline,
        links=links,
        summary=summary_table(BatchReport(tuple(judgements))) if several else None,
        sections=[_section(one, link.anchor) for one, link in zip(judgements, links, strict=True)],
        footer=made_on(machine_facts(), datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
    )


def _about(judgement: Judgement) -> str:
    return ", ".join(map(str, judgement.refusals))


def _section(one: Judgement, anchor: str) -> Section:
    return Section(
        anchor,
        f"{one.candidate} for {one.task}",
        f"{verdict_of(one)} · {one.device}, {one.machine}",
        _reasons(one.task_charges),
        (_verdict("as posed", one.as_posed), _verdict("as an operator", one.as_operator)),
        speed_table(one) if one.speeds else None,
        (*(f"{sign.name}: {sign.message}" for sign in one.signs), *one.notes),
        one.walls.in_force,
        one.walls.missing,
    )


def _verdict(name: str, part: Part) -> Verdict:
    kind = {"accepted": "passed", "refused": "failed", "not judged": "not-run"}[part.state]
    about = part.note or f"{count_of(part.calls, 'call')} compared"
    return Verdict(name, kind, part.state, about, _reasons(part.charges), tuple(part.properties.items()))


def _reasons(charges: Sequence[Charge]) -> tuple[tuple[str, str], ...]:
    return tuple(reasons_of(charges))
