"""Holds a table of texts, which a terminal, Markdown and a page show alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opsmith.report.markdown import row_markdown
from opsmith.report.terminal import Cell, Style, aligned, plain, wrapped

__all__ = ["BAD", "GOOD", "NEITHER", "Table", "kind_of_cell", "mark", "table_lines", "table_markdown"]

GOOD, BAD, NEITHER = "✓", "✗", "\N{EN DASH}"


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
            raise ValueError(f"{self.title}: a row and the head differ in their number of cells")


def mark(is_good: bool) -> str:
    """Return the sign for something that is as it should be, or is not."""
    return GOOD if is_good else BAD


def kind_of_cell(text: str) -> str:
    """Return what a cell with a mark in it means."""
    return "failed" if BAD in text else "passed" if GOOD in text else ""


def table_lines(table: Table, *, style: Style = plain, width: int) -> Iterator[str]:
    """Yield a table without its title, and its note."""
    head: list[Cell] = [(name, "dim") for name in table.columns]
    rows: list[list[Cell]] = [[(cell, kind_of_cell(cell)) for cell in row] for row in table.rows]
    yield from aligned([head, *rows], style, table.align)
    if table.note:
        yield from (style(f"  {line}", "dim") for line in wrapped(table.note, width - 2))


def table_markdown(table: Table) -> Iterator[str]:
    """Yield a table with its title as a heading, and its note."""
    yield from (f"## {table.title}", "", row_markdown(table.columns))
    yield row_markdown(["---:" if side == "r" else "---" for side in table.align])
    yield from map(row_markdown, table.rows)
    if table.note:
        yield from ("", table.note)
