"""Verifies every byte of the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsmith.store.artifact_store import Store
from opsmith.store.eviction import list_entries
from opsmith.store.files import explain_os_errors
from opsmith.store.intact import find_damage, read_manifest
from opsmith.store.staging import move_aside

__all__ = ["Checked", "remove_damaged", "verify_store"]


@dataclass(frozen=True)
class Checked:
    """One artefact that was looked at; `damage` is None if every byte is as its manifest says."""

    key: str
    folder: Path
    name: str | None  # None where the manifest cannot be read
    damage: str | None


def verify_store(store: Store) -> Iterator[Checked]:
    """Yield every artefact with what is wrong with it. Reads every byte of the store."""
    for entry in list_entries(store.layout):
        manifest = read_manifest(entry.folder)
        if manifest is None:
            yield Checked(entry.folder.name, entry.folder, None, "its manifest is missing or damaged")
        else:
            damage = find_damage(entry.folder, manifest)
            yield Checked(entry.folder.name, entry.folder, manifest.name, damage)


def remove_damaged(store: Store, checked: Checked) -> None:
    """Remove a damaged artefact; the next build rebuilds it. Raises StoreError if it cannot be removed."""
    with explain_os_errors(store.root):
        move_aside(checked.folder, store.layout.staging)
