"""Declares the events of a demo; the screen in `opsmith.report.demo` draws them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

__all__ = ["Screen", "Step"]


class Step(Protocol):
    """Something that takes a while."""

    def advance(self, done: int, total: int, detail: str, *, is_milestone: bool = False) -> None:
        """Say how far it is; a milestone leaves a line in a log."""


class Screen(Protocol):
    """Where the demo shows its progress and its results."""

    def title(self, text: str, rest: str) -> None:
        """Show the first line."""

    def section(self, text: str) -> None:
        """Show a numbered heading."""

    def line(self, text: str, *, style: str = "") -> None:
        """Show a line; a mark at its beginning says how good it is."""

    def show(self, result: object) -> None:
        """Show one of the results."""

    def step(self, title: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Show a bar while something runs; it is gone at the end."""
