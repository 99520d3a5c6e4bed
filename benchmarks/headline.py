"""A measured speedup, as the tables of README and docs/results/figures.md show it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Figure"]


@dataclass(frozen=True)
class Figure:
    """An operator's time for one case, and how many times as fast it is as one competitor.

    `page` is its page in docs/operators/.
    """

    operator: str
    page: str
    case: str
    time: str
    machine: str
    against: str
    speedup: str
    of_limit: str = "–"

    def link(self, folder: str = "") -> str:
        """Return the operator's name as a link to its page, which lies in `folder`."""
        return f"[`{self.operator}`]({folder}{self.page}.md)"
