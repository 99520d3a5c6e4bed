"""Holds a judgement: the two verdicts, the times, the signs, and how the candidate was kept apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from opsmith._drawing import text_of
from opsmith._version import __version__
from opsmith.judging.refusals import Refusal

__all__ = ["FORMAT", "Charge", "Judgement", "Part", "Sign", "Speed", "Walls"]

FORMAT = 1
State = Literal["accepted", "refused", "not judged"]


@dataclass(frozen=True)
class Charge:
    """One reason to refuse: its name, what was seen, and on which input."""

    refusal: Refusal
    message: str
    where: str = ""


@dataclass(frozen=True)
class Part:
    """One of the two verdicts. `calls` were compared; `properties` are what was asked, each with how it came out.

    `note` says why nothing was judged, where that is so.
    """

    state: State
    charges: tuple[Charge, ...] = ()
    calls: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Speed:
    """The time of one call in seconds, with the 95 % interval of the median, and the same of what it is held against.

    `limit_s` is what the machine's memory needs to read the inputs and write the results once.
    """

    label: str
    median_s: float
    low_s: float
    high_s: float
    against: str = "eager"
    other_s: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    limit_s: float | None = None
    calls: int = 0


@dataclass(frozen=True)
class Sign:
    """Something seen in the candidate's source or run that a reader should know. It is not part of a verdict."""

    name: str
    message: str
    line: int | None = None


@dataclass(frozen=True)
class Walls:
    """What kept the candidate apart: what was in force, and what the machine does not have."""

    in_force: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """What was found about one candidate for one task.

    `as_posed` is about the task's own shapes and types, `as_operator` about everything that a user of an operator would
    expect. `task_charges` are about the task. `seed` makes the inputs again. `failure` is an error of the judge's own that
    ended it: it says nothing of the candidate.
    """

    task: str
    candidate: str
    device: str
    as_posed: Part
    as_operator: Part
    speeds: tuple[Speed, ...] = ()
    signs: tuple[Sign, ...] = ()
    walls: Walls = Walls()
    task_charges: tuple[Charge, ...] = ()
    notes: tuple[str, ...] = ()
    seed: int = 0
    seconds: float = 0.0
    machine: str = ""
    failure: str = ""
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    @property
    def ok(self) -> bool:
        """Whether the candidate is accepted as posed, for a task that says something."""
        return self.as_posed.state == "accepted" and not self.task_charges

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The names of all charges of both verdicts, each once."""
        charges = (*self.as_posed.charges, *self.as_operator.charges)
        return tuple(dict.fromkeys(charge.refusal for charge in charges))

    def to_json(self) -> str:
        """Return the judgement as JSON; `from_json` reads it again."""
        content = {"format": FORMAT, "opsmith": __version__, "ok": self.ok, **asdict(self)}
        return json.dumps(content, indent=2, default=str) + "\n"

    def __str__(self) -> str:
        return text_of(self)

    @classmethod
    def from_json(cls, text: str) -> Judgement:
        """Return the judgement of a JSON text; raises ValueError if it is not one, or of another format."""
        try:
            content = json.loads(text)
            if content.pop("format") != FORMAT:
                raise ValueError(f"this is not a judgement of format {FORMAT}")
            del content["opsmith"], content["ok"]
            content |= {name: _part(content[name]) for name in ("as_posed", "as_operator")}
            content["speeds"] = tuple(Speed(**one) for one in content["speeds"])
            content["signs"] = tuple(Sign(**one) for one in content["signs"])
            content["walls"] = Walls(**{name: tuple(value) for name, value in content["walls"].items()})
            content["task_charges"] = tuple(map(_charge, content["task_charges"]))
            content["notes"] = tuple(content["notes"])
            return cls(**content)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a judgement of opsmith judge ({error!r})") from None


def _charge(content: dict[str, Any]) -> Charge:
    return Charge(Refusal(content["refusal"]), content["message"], content["where"])


def _part(content: dict[str, Any]) -> Part:
    return Part(**{**content, "charges": tuple(map(_charge, content["charges"]))})
