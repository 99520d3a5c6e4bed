"""Defines a finding, one line of `opsmith doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Status", "ok", "problem", "warning"]

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A problem or a warning has a remedy: a command to type."""

    topic: str
    status: Status
    title: str
    detail: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.status != "ok" and not self.remedy:
            raise ValueError(f"{self.topic}: {self.title!r} says that something is wrong, but not how to fix it")


def ok(topic: str, title: str, detail: str = "") -> Finding:
    """Return a finding about something that works."""
    return Finding(topic, "ok", title, detail)


def warning(topic: str, title: str, detail: str, remedy: str) -> Finding:
    """Return a finding about something that works, but not as well as it could, or is not used yet."""
    return Finding(topic, "warning", title, detail, remedy)


def problem(topic: str, title: str, detail: str, remedy: str) -> Finding:
    """Return a finding about something that this machine is asked to do and cannot."""
    return Finding(topic, "problem", title, detail, remedy)
