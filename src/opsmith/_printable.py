"""Makes text that comes from elsewhere fit for a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return a text with everything that is not printable escaped, as in "\x1b[2J"; `lines` keeps newlines and tabs.

    A terminal obeys escape codes, a newline can begin a line in our name, and marks of writing direction reorder what
    is read. Lone surrogates cannot be encoded.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
