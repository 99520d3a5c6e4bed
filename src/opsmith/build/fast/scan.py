"""Scans a source and its project's headers: their text, their conditions, and how torch's headers come in.

Read as text, not as C++: enough to decide which of torch's headers it cannot do without, and whether these may be read
before everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from opsmith.spec.extension import Source

__all__ = ["UMBRELLAS", "Scan", "scan_source"]

# torch's headers that bring everything.
UMBRELLAS = frozenset({"torch/extension.h", "torch/all.h", "torch/torch.h"})

# A project's headers beyond this number, or a header longer than that, are not looked at.
_MOST_FILES = 200
_MOST_BYTES = 1 << 20

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"#\s*(?P<word>\w+)\s*(?P<rest>.*)")
_INCLUDED = re.compile(r'(?P<mark>[<"])(?P<name>[^>"]+)[>"]')
_CONDITIONS = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"})
# These leave what follows as it is.
_HARMLESS = frozenset({*_CONDITIONS, "else", "endif", "include", "line", "error", "warning"})


@dataclass(frozen=True)
class Scan:
    """What was found: all text without comments, that of the conditions (#if), and how torch's headers come in.

    `umbrella` is the first of UMBRELLAS that is included, or None. `starts_with_torch` says that nothing before it,
    such as a macro, can change what it means.
    """

    text: str
    conditions: str
    umbrella: str | None
    starts_with_torch: bool


@dataclass
class _State:
    folders: tuple[Path, ...]
    texts: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    umbrella: str | None = None
    is_clean: bool = True
    seen: set[Path] = field(default_factory=set)


def scan_source(source: Source, include_dirs: Iterable[Path]) -> Scan:
    """Return what a source mentions; files that cannot be read count as empty."""
    state = _State(tuple(include_dirs))
    if source.text is not None:
        _scan(source.text, None, state)
    elif source.path is not None:
        _scan(_read(source.path), source.path.parent, state)
    starts = state.umbrella is not None and state.is_clean
    return Scan("\n".join(state.texts), "\n".join(state.conditions), state.umbrella, starts)


def _scan(text: str, folder: Path | None, state: _State) -> None:
    lines = [line for line in map(str.strip, _COMMENT.sub(" ", text.replace("\\\n", " ")).splitlines()) if line]
    state.texts.extend(lines)
    guard = _guard(lines)
    for line in lines:
        directive = _DIRECTIVE.match(line)
        if directive is None or not (directive["word"] in _HARMLESS or line in guard or line == "#pragma once"):
            state.is_clean &= state.umbrella is not None
            continue
        if directive["word"] in _CONDITIONS and line not in guard:
            state.conditions.append(directive["rest"])
        elif directive["word"] == "include" and (included := _INCLUDED.match(directive["rest"])):
            _follow(included["name"], folder if included["mark"] == '"' else None, state)


def _guard(lines: list[str]) -> tuple[str, ...]:
    """Return the two lines that keep a header from being read twice."""
    opened, defined = ([*lines, "", ""][index].split() for index in (0, 1))
    is_guard = opened[:1] == ["#ifndef"] and defined[:1] == ["#define"] and opened[1:] == defined[1:2]
    return (lines[0], lines[1]) if is_guard else ()


def _follow(name: str, folder: Path | None, state: _State) -> None:
    if name in UMBRELLAS:
        state.umbrella = state.umbrella or name
        return
    for file in _candidates(name, folder, state.folders):
        if file.is_file():
            if file not in state.seen and len(state.seen) < _MOST_FILES:
                state.seen.add(file)
                _scan(_read(file), file.parent, state)
            return


def _candidates(name: str, folder: Path | None, folders: Iterable[Path]) -> Iterator[Path]:
    for base in (folder, *folders):
        if base is not None:
            yield base / name


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
