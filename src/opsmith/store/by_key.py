"""Gets an artefact whose key is known, and imports nothing of what searches the store or publishes to it.

A process that loads a finished library needs no more, and what it imports costs every such process.
"""

from __future__ import annotations

from opsmith.store import keys
from opsmith.store.intact import Artifact, read_artifact
from opsmith.store.locate import Layout
from opsmith.store.safety import refuse_unsafe
from opsmith.store.usage import note_use

__all__ = ["get_artifact"]


def get_artifact(layout: Layout, key: str) -> Artifact | None:
    """Return the artefact of this key where it is there and whole, or None.

    Raises StoreError if others than this user and root could have written to the store.
    """
    refuse_unsafe(*layout.guarded)
    if not keys.is_key(key):
        return None
    folder = layout.artifact(key)
    # Noted before it is read: an eviction then either sees the note, or is so early that the reading fails.
    note_use(folder)
    return read_artifact(folder)
