"""Holds what mutation of an operator found: each mutant and what became of it, and the score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from opsmith._drawing import text_of
from opsmith.checker.mutate.kinds import KINDS
from opsmith.checker.mutate.mutants import Mutant
from opsmith.errors import CheckError

__all__ = ["FATES", "Count", "Fate", "MutationReport", "MutationReports", "Verdict"]

# What becomes of a mutant. The first two say nothing of the check and do not count: `same code` is machine code that is
# the original's or another mutant's.
Fate = Literal["not compiled", "same code", "found", "survived"]
FATES: tuple[Fate, ...] = ("not compiled", "same code", "found", "survived")


@dataclass(frozen=True)
class Verdict:
    """A mutant and its fate. `named` is the property that found it and `message` its words, or the compiler's.

    `why` tells of a survivor what is known about it.
    """

    mutant: Mutant
    fate: Fate
    named: str = ""
    message: str = ""
    why: str = ""
    seconds: float = 0.0
    digest: str = ""


@dataclass(frozen=True)
class Count:
    """How many mutants of a kind had which fate."""

    kind: str
    planted: int
    not_compiled: int
    same_code: int
    found: int
    survived: int


@dataclass(frozen=True)
class MutationReport:
    """What mutation of one operator found on a device. `possible` is how many mutants there are, tried or not."""

    operator: str
    device: str
    verdicts: tuple[Verdict, ...]
    possible: int
    seed: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[Verdict, ...]:
        """The mutants that a check can find: those that compile, to other code than the original's."""
        return tuple(verdict for verdict in self.verdicts if verdict.fate in ("found", "survived"))

    @property
    def survivors(self) -> tuple[Verdict, ...]:
        """The mutants that the check did not find."""
        return tuple(verdict for verdict in self.verdicts if verdict.fate == "survived")

    @property
    def score(self) -> float | None:
        """The percentage of the mutants that count that the check found; None if none counts."""
        counted = self.counted
        return 100.0 * (len(counted) - len(self.survivors)) / len(counted) if counted else None

    def counts(self) -> list[Count]:
        """Return the fates by kind, in the order of the kinds."""
        return list(_counts(self.verdicts))

    def raise_if_below(self, percent: float) -> None:
        """Raise CheckError, with the report as its text, if the score is lower."""
        if self.score is not None and self.score < percent:
            raise CheckError(
                f"{self.operator}: {self.score:.0f} % of the mutants were found, not {percent:g} %\n\n{self}"
            )

    def as_json(self) -> dict[str, Any]:
        """Return the report as what `json.dumps` takes."""
        return {
            "name": self.operator,
            "device": self.device,
            "score": None if (score := self.score) is None else round(score, 2),
            "possible": self.possible,
            "planted": len(self.verdicts),
            **{fate.replace(" ", "_"): sum(v.fate == fate for v in self.verdicts) for fate in FATES},
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
            "mutants": [_verdict_as_json(verdict) for verdict in self.verdicts],
        }

    def __str__(self) -> str:
        """The table of kinds, and below it the survivors."""
        return text_of(self)


class MutationReports(tuple[MutationReport, ...]):
    """What mutation of several operators found: a tuple of reports."""

    __slots__ = ()

    def raise_if_below(self, percent: float) -> None:
        """Raise CheckError for the first operator whose score is lower."""
        for report in self:
            report.raise_if_below(percent)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


def _counts(verdicts: Iterable[Verdict]) -> Iterable[Count]:
    listed = list(verdicts)
    for kind in KINDS:
        fates = [verdict.fate for verdict in listed if verdict.mutant.kind == kind.name]
        if fates:
            yield Count(kind.name, len(fates), *(fates.count(fate) for fate in FATES))


def _verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    mutant = verdict.mutant
    return {
        "kind": mutant.kind,
        "file": Path(mutant.file).name,
        "line": mutant.line,
        "function": mutant.function,
        "before": mutant.before_line,
        "after": mutant.after_line,
        "fate": verdict.fate,
        "found_by": verdict.named or None,
        "message": verdict.message,
        "why": verdict.why,
        "seconds": round(verdict.seconds, 2),
    }
