"""Keeps the store within its size limit, without scanning all of it after each build.

Each publication adds one line to a small file, and only where the lines add up to more than the limit, or have become
many, is the store looked through; the file then starts over with what was found. Lines that two machines lose to each
other are made up for there. What was used least recently goes first, but nothing that a process may be about to load.
"""

from __future__ import annotations

import os
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opsmith import _env
from opsmith.errors import OpsmithError
from opsmith.store.files import explain_os_errors, list_files, write_atomic
from opsmith.store.intact import Artifact
from opsmith.store.locate import Layout
from opsmith.store.reading import parse_json, read_regular
from opsmith.store.staging import move_aside, sweep
from opsmith.store.units import parse_size
from opsmith.store.usage import GRACE_S, is_in_use, last_used_s

__all__ = ["Entry", "Pruned", "keep_bounded", "list_entries", "prune", "size_limit", "sweep_rest"]

DEFAULT_LIMIT = "5 GB"

# Pruned to this part of the limit, so that the next publications need not look again.
_LOW_WATER = 0.8

# The file of publications is read at each of them, and must not grow.
_LINES_BEFORE_SCAN = 256
_MOST_USAGE_BYTES = 1 << 20

# What is left by builds that ended: locks, and notes that lead to artefacts that are gone.
_REST_STALE_S = 24 * 60 * 60

# What is rewritten by the next build that needs it: what editors read, and which sources need torch's whole header.
# Sources that were given as text are small, and a library may name them as long as it is used.
_DAY_S = 24 * 60 * 60
_NOTES = {"editor": 30 * _DAY_S, "whole-headers": 30 * _DAY_S, "texts": 365 * _DAY_S}


@dataclass(frozen=True)
class Entry:
    """One artefact's folder with what it takes and when it was last used; its manifest may be damaged."""

    folder: Path
    size_bytes: int
    last_used_s: float


@dataclass(frozen=True)
class Pruned:
    """What `prune` removed, what it would have but for its being in use, and what is left."""

    removed: tuple[Entry, ...]
    spared: tuple[Entry, ...]
    left_bytes: int


def size_limit() -> int | None:
    """Return how many bytes the store may hold, of OPSMITH_CACHE_SIZE, or None for any number ("0" or "none").

    Raises ArgumentError if it is not a size.
    """
    text = _env.read("OPSMITH_CACHE_SIZE") or DEFAULT_LIMIT
    if text.strip().lower() == "none":
        return None
    return parse_size(text, "OPSMITH_CACHE_SIZE") or None


def list_entries(layout: Layout) -> Iterator[Entry]:
    """Yield every artefact's folder, the damaged too."""
    for folder in list_files(layout.artifacts, "", depth=1):
        yield Entry(folder, _size_bytes(folder), last_used_s(folder))


def keep_bounded(layout: Layout, published: Artifact) -> None:
    """Note a publication, and remove what was used least recently where the store is too large.

    A build that has succeeded does not fail for this: what goes wrong is a warning.
    """
    try:
        limit = size_limit()
        total = _note_publication(layout, _size_bytes(published.folder))
        if limit is not None and (total is None or total > limit):
            prune(layout, max_bytes=limit, low_water=_LOW_WATER, spare=published.folder)
    except (OSError, OpsmithError) as error:
        warnings.warn(
            f"opsmith's store {layout.root} is not kept within its size limit: {error}", RuntimeWarning, stacklevel=2
        )


def prune(
    layout: Layout,
    *,
    max_bytes: int | None = None,
    older_than_s: float | None = None,
    low_water: float = 1.0,
    force: bool = False,
    spare: Path | None = None,
) -> Pruned:
    """Remove artefacts that were not used for `older_than_s`, then the least recently used until `max_bytes` is kept.

    Where more is there than `max_bytes`, that is until no more than the part `low_water` of it is left. What was used in
    the last minutes stays unless `force` is given, and `spare` always. Locks, records and notes that lead nowhere are
    swept. Raises StoreError if the store cannot be written.
    """
    entries = sorted(list_entries(layout), key=lambda entry: entry.last_used_s)
    left = sum(entry.size_bytes for entry in entries)
    goal = None if max_bytes is None else (int(max_bytes * low_water) if left > max_bytes else max_bytes)
    removed, spared = [], []
    with explain_os_errors(layout.root):
        for entry in entries:
            is_old = older_than_s is not None and time.time() - entry.last_used_s > older_than_s
            if not is_old and (goal is None or left <= goal):
                continue
            # Asked again: it may have been used since it was listed.
            if entry.folder == spare or (not force and is_in_use(entry.folder)):
                spared.append(entry)
                continue
            move_aside(entry.folder, layout.staging)
            removed.append(entry)
            left -= entry.size_bytes
        sweep_rest(layout)
        _write_usage(layout, left)
    return Pruned(tuple(removed), tuple(spared), left)


def sweep_rest(layout: Layout) -> int:
    """Remove records, notes and locks that lead nowhere, and what killed processes left; return how many."""
    if layout.staging.is_dir():
        sweep(layout.staging)
    records = list_files(layout.records, ".json", depth=2)
    swept = _sweep(records, lambda path: not layout.artifact(path.stem).exists(), GRACE_S)
    _drop_empty(list_files(layout.records, "", depth=1))
    swept += _sweep(list_files(layout.locks, ".lock"), lambda path: True, _REST_STALE_S)
    shortcuts = list_files(layout.base / "shortcuts", ".json")
    swept += _sweep(shortcuts, lambda path: _leads_nowhere(layout, path), _REST_STALE_S)
    for name, stale_s in _NOTES.items():
        folder = layout.base / name
        notes = [path for depth in (0, 1) for path in list_files(folder, "", depth=depth) if path.is_file()]
        swept += _sweep(notes, lambda path: True, stale_s)
        _drop_empty(list_files(folder, ""))
    return swept


def _drop_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # not empty, or a file
            folder.rmdir()


def _sweep(paths: list[Path], is_useless: Callable[[Path], bool], stale_s: float) -> int:
    swept = 0
    for path in paths:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > stale_s and is_useless(path):
                path.unlink()
                swept += 1
    return swept


def _leads_nowhere(layout: Layout, shortcut: Path) -> bool:
    try:
        return not layout.index(str(parse_json(read_regular(shortcut))["source_key"])).exists()
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _note_publication(layout: Layout, size_bytes: int) -> int | None:
    """Add a line and return the sum of all, or None if it is unknown and the store must be measured."""
    usage = layout.usage
    try:
        # Not created here, and every line at the end as it is then: others write too.
        with os.fdopen(os.open(usage, os.O_RDWR | os.O_APPEND), "r+b") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_USAGE_BYTES:
                return None  # measuring replaces it
            file.write(f"{size_bytes}\n".encode())
            file.seek(0)
            lines = file.read().split()
        return sum(map(int, lines)) if len(lines) < _LINES_BEFORE_SCAN else None
    except FileNotFoundError:
        if len(list_files(layout.artifacts, "", depth=1)) <= 1:  # the first of a new store
            _write_usage(layout, size_bytes)
            return size_bytes
        return None
    except ValueError:
        return None


def _write_usage(layout: Layout, total_bytes: int) -> None:
    write_atomic(layout.usage, f"{total_bytes}\n".encode(), scratch=layout.staging, durable=False)


def _size_bytes(folder: Path) -> int:
    size = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += Path(base, name).lstat().st_size
    return size
