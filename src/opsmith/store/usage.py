"""Records when an artefact was last used, at no cost to a load."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from opsmith.store.manifest import MANIFEST_NAME

__all__ = ["GRACE_S", "is_in_use", "last_used_s", "note_use"]

# The manifest's time of modification is the time of the last use. Nothing reads it to tell whether an artefact fits.
_NOTE_EVERY_S = 5 * 60

# Nothing that was used within this time is removed. A process that found an artefact has at least the difference of the
# two to load it.
GRACE_S = 15 * 60


def note_use(folder: Path) -> None:
    """Note that an artefact is used now, where the last note is more than five minutes old. Raises nothing."""
    manifest = folder / MANIFEST_NAME
    # A store of another user's, or on a read-only disk, cannot be noted in. Its owner must know what he removes.
    with suppress(OSError):
        if not 0 <= time.time() - manifest.stat().st_mtime < _NOTE_EVERY_S:
            os.utime(manifest)


def last_used_s(folder: Path) -> float:
    """Return when an artefact was last used, or published, in seconds since 1970; 0 if it is gone."""
    for path in (folder / MANIFEST_NAME, folder):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def is_in_use(folder: Path) -> bool:
    """Tell whether a process may be about to load an artefact."""
    return abs(time.time() - last_used_s(folder)) < GRACE_S
