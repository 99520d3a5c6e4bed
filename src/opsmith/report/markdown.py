"""Writes rows of Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["escaped", "head_markdown", "row_markdown"]


def head_markdown(cells: Sequence[str]) -> str:
    """Return the two lines that a table begins with."""
    return f"{row_markdown(cells)}\n{'|---' * len(cells)}|"


def row_markdown(cells: Sequence[str]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(map(escaped, cells))} |"


def escaped(text: str) -> str:
    """Return a text that ends no cell."""
    return text.replace("|", "\\|")
