"""Holds what a check found: results by property and column, and the overall result."""

from __future__ import annotations

from dataclasses import dataclass

from opsmith._drawing import text_of
from opsmith.checker.outcome import Finding, Outcome
from opsmith.errors import CheckError

__all__ = ["Column", "Report", "Result"]


@dataclass(frozen=True, order=True)
class Column:
    """A device and an element type; no type for what is checked once on a device."""

    device: str
    dtype: str


@dataclass(frozen=True)
class Result:
    """One property in one column."""

    name: str
    column: Column
    outcome: Outcome


@dataclass(frozen=True)
class Report:
    """What the check of one operator found. `seconds` is how long it took, `seed` makes it again."""

    operator: str
    results: tuple[Result, ...]
    seed: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed, neither the operator nor the check itself."""
        return not self.failures and not self.errors

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results that failed."""
        return tuple(result for result in self.results if result.outcome.state == "failed")

    @property
    def errors(self) -> tuple[Result, ...]:
        """The results that say nothing because the check itself failed, which is a defect of opsmith's."""
        return tuple(result for result in self.results if result.outcome.is_error)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the properties that failed somewhere, in the order of the table."""
        return tuple(dict.fromkeys(result.name for result in self.failures))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found wrong."""
        return tuple(finding for result in self.failures for finding in result.outcome.findings)

    def raise_if_failed(self) -> None:
        """Raise CheckError, with the whole report as its text, where something failed."""
        if not self.ok:
            raise CheckError(str(self))

    def __str__(self) -> str:
        """The table, and below it what was found."""
        return text_of(self)
