"""Looks a text up in the catalogue and fills in cause and remedy."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from opsmith.catalogue.entry import Entry, Facts
from opsmith.catalogue.packages import package_of_header, package_of_library, toolkit_command

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """What an entry says about a text: the line that it is about, the cause, and what to do."""

    id: str
    title: str
    line: str
    cause: str
    remedy: str

    @property
    def text(self) -> str:
        """Cause and remedy, as the end of an error message."""
        return f"{self.cause}\n{self.remedy}"


def explain(
    text: str, facts: Facts | None = None, *, demangle: Callable[[str], str] = lambda symbol: symbol
) -> tuple[Explanation, ...]:
    """Return what the catalogue knows about a text, each entry once, in the order in which the text speaks of them.

    `demangle` makes a C++ name readable. Where several entries fit one line, the first of the table counts alone.
    """
    known = (facts or Facts()).known()
    taken: set[int] = set()
    found: list[tuple[int, Explanation]] = []
    for entry in _entries():
        for match in _compiled(entry.pattern).finditer(text):
            # The line where the match ends: a pattern may begin with lines that only lead there.
            line = text.count("\n", 0, max(match.end() - 1, 0))
            if line not in taken:
                taken.add(line)
                found.append((line, _explanation(entry, match, _line(text, match), known, demangle)))
                break
    return tuple(explanation for _, explanation in sorted(found, key=lambda item: item[0]))


def _explanation(
    entry: Entry, match: re.Match[str], line: str, known: Mapping[str, str], demangle: Callable[[str], str]
) -> Explanation:
    groups = {name: value.strip() for name, value in match.groupdict().items() if value is not None}
    values = {**known, **groups, **_derived(groups, known, demangle)}
    return Explanation(
        entry.id,
        _fill((entry.title,), values) or entry.title,
        line,
        _fill(entry.cause, values),
        _fill(entry.remedy, values),
    )


def _line(text: str, match: re.Match[str]) -> str:
    """Return the line of a text that a match ends in."""
    last = max(match.end() - 1, 0)
    end = text.find("\n", last)
    return text[text.rfind("\n", 0, last) + 1 : end if end >= 0 else len(text)].strip()


def _derived(groups: Mapping[str, str], known: Mapping[str, str], demangle: Callable[[str], str]) -> dict[str, str]:
    """Return what follows from a pattern's groups: a readable symbol, the package of a header or a library, a "
    "toolkit."""
    cuda = known.get("nvcc") or known.get("torch_cuda")
    derived = {}
    if "symbol" in groups:
        derived["symbol"] = demangle(groups["symbol"])
    if "header" in groups and (package := package_of_header(groups["header"], cuda)):
        derived["package"] = package
    if "library_file" in groups and (package := package_of_library(groups["library_file"], cuda)):
        derived["package"] = package
    if "torch_cuda" in known:
        derived["toolkit_command"] = toolkit_command(known["torch_cuda"])
    return derived


def _fill(sentences: tuple[str, ...], values: Mapping[str, str]) -> str:
    return " ".join(sentence.format(**values) for sentence in sentences if _names(sentence) <= values.keys())


@cache
def _names(sentence: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in string.Formatter().parse(sentence) if name)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def _entries() -> tuple[Entry, ...]:
    from opsmith.catalogue.table import ENTRIES

    return ENTRIES
