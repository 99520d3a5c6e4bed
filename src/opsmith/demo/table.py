"""What a table of the demo is: texts in rows, rendered alike by the terminal, the Markdown and the HTML report."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BAD", "GOOD", "NEITHER", "Finding", "Table", "mark"]

GOOD, BAD, NEITHER = "✓", "✗", "\N{EN DASH}"


def mark(is_good: bool) -> str:
    """Return the sign for something that is as it should be, or not."""
    return GOOD if is_good else BAD


@dataclass(frozen=True)
class Finding:
    """One line of the summary: a mark, what it is about, and what was found."""

    sign: str
    topic: str
    text: str


@dataclass(frozen=True)
class Table:
    """Rows of texts under column names; `align` has one letter a column, l or r; `note` says how to read the figures."""

    title: str
    columns: tuple[str, ...]
    align: str
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        widths = {len(self.columns), len(self.align), *(len(row) for row in self.rows)}
        if len(widths) != 1:
            raise ValueError(f"{self.title}: a row has another number of cells than the table has columns")
