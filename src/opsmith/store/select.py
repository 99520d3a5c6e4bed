"""Selects artefacts by name or key."""

from __future__ import annotations

from collections.abc import Sequence

from opsmith.store.artifact_store import Store
from opsmith.store.intact import Artifact

__all__ = ["is_meant", "select_artifacts"]

# So many digits of a key are enough to tell it from a name.
_MIN_DIGITS = 6


def select_artifacts(store: Store, names: Sequence[str]) -> list[Artifact]:
    """Return the artefacts that have one of the names, or whose key begins so; all where no name is given."""
    return [item for item in store.artifacts() if not names or any(is_meant(item, name) for name in names)]


def is_meant(item: Artifact, name: str) -> bool:
    """Tell whether a name is the artefact's, or the beginning of its key."""
    return item.manifest.name == name or (len(name) >= _MIN_DIGITS and item.key.startswith(name))
