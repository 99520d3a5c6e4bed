"""Defines a finding: one thing about a file that is false or broken, or that its maker should know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Severity", "fault", "note"]

# A fault makes the verdict "refused": the file claims what is not true, or cannot work. A note does not.
Severity = Literal["fault", "note"]


@dataclass(frozen=True)
class Finding:
    """What was found, and what fixes it: a command, a line to write, or a sentence.

    `name` is the same for every finding of its kind; docs/guides/audit.md explains each. `where` is the file inside the
    wheel, or empty where it is about the whole.
    """

    severity: Severity
    name: str
    title: str
    detail: str = ""
    remedy: str = ""
    where: str = ""

    def __post_init__(self) -> None:
        if self.severity == "fault" and not self.remedy:
            raise ValueError(f"{self.name}: {self.title!r} says that something is wrong, but not how to fix it")


def fault(name: str, title: str, *, remedy: str, detail: str = "", where: str = "") -> Finding:
    """Return a finding about a claim that is false, or about something broken."""
    return Finding("fault", name, title, detail, remedy, where)


def note(name: str, title: str, *, detail: str = "", remedy: str = "", where: str = "") -> Finding:
    """Return a finding about something that is worth knowing and makes no claim false."""
    return Finding("note", name, title, detail, remedy, where)
