"""Finds files that were saved while a build read them.

A header that is saved while the compiler runs would be recorded with its new digest next to a binary made from its old
text, and that wrong artefact would be found for ever. A build asks before it publishes, and builds again where a file may
have been saved. Times are used to refuse here, never to accept.

They can lie in the future: an archive or `touch` gives any time of modification, and the clock of a file server can be
ahead of this machine's. The time of change (ctime) no program sets, so an old one says that a file is as it was. Where
that too lies in the future, what was in the file before and after the build is compared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from opsmith.store.keys import digest_file

__all__ = ["Version", "edited_since", "outlive_edits", "versions_ahead"]

# File systems stamp with the kernel's coarse clock, which may lag behind `time.time_ns` by a tick (10 ms at 100 Hz).
_CLOCK_TICK_NS = 10_000_000


class Version(NamedTuple):
    """What a file was at some time: its stamps, which another writing changes, and what it says."""

    stamps: tuple[int, ...]
    digest: str


def versions_ahead(paths: Iterable[Path]) -> dict[Path, Version]:
    """Return the versions of those files that have changed in the future, by this machine's clock.

    Taken before a build, they tell `edited_since` which of them are still the same. Files that cannot be read are left
    out.
    """
    now_ns = time.time_ns()
    versions = {path: _version(path) for path in paths if _changed_ns(path) > now_ns - _CLOCK_TICK_NS}
    return {path: version for path, version in versions.items() if version is not None}


def edited_since(
    paths: Iterable[Path], start_ns: int, ahead: Mapping[Path, Version] = MappingProxyType({})
) -> tuple[Path, ...]:
    """Return those files that may have been written since `start_ns` (of `time.time_ns`), or that are gone.

    `ahead` are those of `versions_ahead` at the start. A file that has changed in the future and is not among them may
    have been written since.
    """
    return tuple(path for path in paths if _may_be_edited(path, start_ns - _CLOCK_TICK_NS, ahead.get(path)))


def outlive_edits(paths: Iterable[Path]) -> None:
    """Wait for a tick of the clock if files have just been written: a build that begins now would count as older."""
    if edited_since(paths, time.time_ns()):
        time.sleep(_CLOCK_TICK_NS / 1e9)


def _may_be_edited(path: Path, earliest_ns: int, before: Version | None) -> bool:
    try:
        status = path.stat()
    except OSError:
        return True
    if status.st_ctime_ns >= earliest_ns:
        return before is None or _version(path) != before
    # Some file systems do not keep the time of change.
    return earliest_ns <= status.st_mtime_ns <= time.time_ns()


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return 0


def _version(path: Path) -> Version | None:
    try:
        return Version(_stamps(path.stat()), digest_file(path))
    except OSError:
        return None


def _stamps(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino
