"""Looks a text up in the catalogue and fills in cause and remedy."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from opsmith.catalogue.candidates import find_candidates
from opsmith.catalogue.entry import Entry, Facts
from opsmith.catalogue.packages import package_of_header, package_of_library, toolkit_command

__all__ = ["Explanation", "explain"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_SHOWN_CHARACTERS = 500


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
    text: str | Iterable[str], facts: Facts | None = None, *, demangle: Callable[[str], str] = lambda symbol: symbol
) -> tuple[Explanation, ...]:
    """Return what the catalogue knows about a text, each entry once, in the order in which the text speaks of them.

    The text may come in pieces, which are not kept. `demangle` makes a C++ name readable. Where several entries fit one
    line, the first of the table counts alone.
    """
    known = (facts or Facts()).known()
    found: dict[str, Explanation] = {}
    for candidate in find_candidates(text):
        if all(entry.id in found for entry in candidate.entries):
            continue
        for entry in candidate.entries:
            if entry.needs and entry.needs not in known:
                continue
            if (match := candidate.match(entry)) is not None:
                if entry.id not in found:
                    found[entry.id] = _explanation(entry, match, candidate.line, known, demangle)
                break
    return tuple(found.values())


def _explanation(
    entry: Entry, match: re.Match[str], line: str, known: Mapping[str, str], demangle: Callable[[str], str]
) -> Explanation:
    groups = {name: _printable(value) for name, value in match.groupdict().items() if value is not None}
    values = {**known, **groups, **_derived(groups, known, demangle)}
    return Explanation(
        entry.id,
        _fill((entry.title,), values) or entry.title,
        _printable(line),
        _fill(entry.cause, values),
        _fill(entry.remedy, values),
    )


def _printable(text: str) -> str:
    """Return a text of a log as a terminal may have it: without control characters, and of a length to read."""
    text = _CONTROL.sub(" ", text).strip()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _derived(groups: Mapping[str, str], known: Mapping[str, str], demangle: Callable[[str], str]) -> dict[str, str]:
    """Return what follows from a pattern's groups: a readable symbol, the package of a header or library, a toolkit."""
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
