"""Text of docstrings and comments as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

__all__ = ["escape", "prose"]

# What can only be a name of code: with an underscore or ::, and perhaps template arguments or parentheses behind it.
_NAME = re.compile(r"[-\w:./]*\w(?:_|::)\w[-\w:./]*(?<![:.])(?:<[^<> ]*>)?(?:\(\))?|\b__\w+__\b")
_ROW = re.compile(r"^(\w+) {2,}(?=\S)")


def escape(text: str) -> str:
    """Return a text with names of code in backticks, and Markdown's markup escaped outside of these."""
    parts = text.split("`")
    parts[::2] = [_NAME.sub(lambda name: f"`{name[0]}`", part) for part in parts[::2]]
    parts = "`".join(parts).split("`")
    for index in range(0, len(parts), 2):
        for mark in ("\\", "*", "_", "<", ">", "["):
            parts[index] = parts[index].replace(mark, f"\\{mark}")
    return "`".join(parts)


def prose(text: str, language: str) -> Iterator[str]:
    """Yield the lines of a docstring or comment: paragraphs, lists of names, and what is indented as code in a language."""
    for paragraph in _paragraphs(text):
        if paragraph.startswith("    "):
            yield from (f"```{language}", textwrap.dedent(paragraph).rstrip(), "```", "")
        elif _ROW.match(paragraph):
            for row in re.split(r"\n(?=\w)", paragraph):
                name, _, described = row.partition("  ")
                yield f"* **`{name}`**: {escape(' '.join(described.split()))}"
            yield ""
        else:
            yield from (escape(" ".join(paragraph.split())), "")


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text; code stays one, whatever empty lines are in it."""
    found: list[str] = []
    for paragraph in re.split(r"\n[ \t]*\n", text.strip("\n")):
        if found and paragraph.startswith("    ") and found[-1].startswith("    "):
            found[-1] += f"\n\n{paragraph}"
        elif paragraph.strip():
            found.append(paragraph)
    return found
