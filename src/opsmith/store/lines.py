"""Tells which line of a source changed since a build, from short digests of lines kept next to the binary.

The sources themselves are not kept: a store is shared, and sources may be private.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from opsmith.store.headers import resolve_name
from opsmith.store.keys import digest, digest_file
from opsmith.store.reading import parse_json, read_regular

__all__ = ["LINES_NAME", "SOURCE_PREFIX", "first_changed_line", "write_lines"]

LINES_NAME = "lines.json"

# What the inputs of a key call a user's source, before its portable name.
SOURCE_PREFIX = "source "

# One line in 16 million changes unnoticed, which here costs a wrong hint and nothing else.
_DIGITS = 6

# Generated sources may be huge, and a hint is not worth a file of megabytes.
_MAX_LINES = 20_000


def write_lines(folder: Path, inputs: Mapping[str, str], headers: Iterable[str], roots: Mapping[str, Path]) -> None:
    """Write the digests of the lines of a build's sources and headers into an artefact's folder. Raises OSError."""
    named = {name: name.removeprefix(SOURCE_PREFIX) for name in inputs if name.startswith(SOURCE_PREFIX)}
    named |= {name: name for name in headers}
    known: dict[str, str] = {}
    for name, portable in named.items():
        if (path := resolve_name(portable, roots)) is not None and _is_still(path, inputs.get(name)):
            lines = _digest_lines(path)
            if len(lines) <= _MAX_LINES:
                known[name] = "".join(lines)
    if known:
        (folder / LINES_NAME).write_text(json.dumps(known), encoding="utf-8")


def first_changed_line(folder: Path, name: str, roots: Mapping[str, Path]) -> int | None:
    """Return the number of the first line of a source or header that is not as it was, or None if that is unknown."""
    path = resolve_name(name.removeprefix(SOURCE_PREFIX), roots)
    try:
        known: Any = parse_json(read_regular(folder / LINES_NAME))
        before = str(known[name])
        now = _digest_lines(path) if path is not None else []
    except (OSError, ValueError, KeyError, TypeError):
        return None
    old = [before[start : start + _DIGITS] for start in range(0, len(before), _DIGITS)]
    same = 0
    for one, other in zip(old, now, strict=False):
        if one != other:
            break
        same += 1
    return None if old == now or path is None else same + 1


def _digest_lines(path: Path) -> list[str]:
    return [digest(line)[:_DIGITS] for line in path.read_bytes().splitlines()]


def _is_still(path: Path, expected: str | None) -> bool:
    """Tell whether a file is there and what was built, where that is known."""
    try:
        return path.is_file() if expected is None else digest_file(path) == expected
    except OSError:
        return False
