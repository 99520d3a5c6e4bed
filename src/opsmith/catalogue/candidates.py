"""Finds the lines of a text that entries of the catalogue may fit, in one pass and little memory.

Regular expressions are slow, and 90 of them on every line of a log of hundreds of megabytes take hours. So each entry
names words, one of which lies in whatever its pattern fits; a search for a word runs at gigabytes a second, and the
patterns see only the lines that it finds. Of a line without an end they see sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from opsmith.catalogue.entry import Entry

__all__ = ["Candidate", "find_candidates"]

# Blocks that the caches of a processor hold.
_BLOCK_CHARACTERS = 1 << 18
# What a pattern sees of a longer line, which bounds the time of patterns that look back and forth. Sections overlap by
# half, so that what belongs together lies in one.
_SECTION_CHARACTERS = 4096
# What compilers and build tools colour their messages with.
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class Candidate:
    """A line of a block of text, or a section of a long one, and the entries that may fit it, in their order."""

    block: str
    start: int
    end: int
    entries: tuple[Entry, ...]

    @property
    def line(self) -> str:
        """The line or section itself."""
        return self.block[self.start : self.end]

    def match(self, entry: Entry) -> re.Match[str] | None:
        """Return the match of an entry that ends in this line, or None."""
        first = self.start
        for _ in range(entry.lines - 1):
            first = self.block.rfind("\n", 0, max(first - 1, 0)) + 1
        first = max(first, self.start - _SECTION_CHARACTERS)
        matches = _compiled(entry.pattern).finditer(self.block, first, self.end)
        return next((match for match in matches if match.end() > self.start), None)


def find_candidates(text: str | Iterable[str]) -> Iterator[Candidate]:
    """Yield the candidates of a text, which may come in pieces, in their order; those near a cut between blocks twice."""
    table = _entries()
    for block in _blocks(text):
        # Start of a line or section -> its end and the entries, as numbers.
        found: dict[int, tuple[int, set[int]]] = {}
        for word, numbers in _words().items():
            at = block.find(word)
            while at >= 0:
                start, end, following = _section(block, at)
                found.setdefault(start, (end, set()))[1].update(numbers)
                at = block.find(word, following)
        for start, (end, fitting) in sorted(found.items(), key=lambda item: item[0]):
            yield Candidate(block, start, end, tuple(table[number] for number in sorted(fitting)))


def _section(block: str, at: int) -> tuple[int, int, int]:
    """Return the ends of the line or section around a position, and where the next one begins to be asked about."""
    start = block.rfind("\n", 0, at) + 1
    end = block.find("\n", at)
    end = len(block) if end < 0 else end
    if end - start <= _SECTION_CHARACTERS:
        return start, end, end
    quarter = _SECTION_CHARACTERS // 4
    start += max(at - start - quarter, 0) // (2 * quarter) * (2 * quarter)
    return start, min(start + 4 * quarter, end), start + 3 * quarter


def _blocks(text: str | Iterable[str]) -> Iterator[str]:
    """Yield a text in blocks of whole lines. Each repeats the last lines of the one before, for what spans both."""
    rest = ""
    for piece in _pieces(text):
        block = rest + piece
        cut = block.rfind("\n") + 1
        if len(block) - cut > _BLOCK_CHARACTERS:
            cut = len(block)
        yield _plain(block[:cut])
        overlap = max(cut - _SECTION_CHARACTERS, 0)
        line = block.find("\n", overlap, cut) + 1 if overlap else 0
        rest = block[line or overlap :]
    yield _plain(rest)


def _pieces(text: str | Iterable[str]) -> Iterator[str]:
    for part in (text,) if isinstance(text, str) else text:
        for start in range(0, len(part), _BLOCK_CHARACTERS):
            yield part[start : start + _BLOCK_CHARACTERS]


def _plain(block: str) -> str:
    return _COLOUR.sub("", block) if "\x1b" in block else block


@cache
def _words() -> dict[str, tuple[int, ...]]:
    """Return the words of all entries, each with the numbers of its entries."""
    words: dict[str, list[int]] = {}
    for number, entry in enumerate(_entries()):
        for word in entry.words:
            words.setdefault(word, []).append(number)
    return {word: tuple(numbers) for word, numbers in words.items()}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def _entries() -> tuple[Entry, ...]:
    from opsmith.catalogue.table import ENTRIES

    return ENTRIES
