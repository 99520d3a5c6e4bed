"""Explains why no artefact was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from opsmith.store import keys
from opsmith.store.artifact_store import NO_ROOTS, Store
from opsmith.store.headers import ABSENT, HeaderDigests
from opsmith.store.index import changed_headers, read_records
from opsmith.store.intact import Artifact, read_manifest
from opsmith.store.lines import first_changed_line

__all__ = ["Change", "Miss", "compare_inputs", "explain_miss"]


@dataclass(frozen=True)
class Change:
    """One input or header that differs between a wanted artefact and the nearest stored one."""

    name: str
    kind: Literal["changed", "added", "removed"]
    line: int | None = None  # the first line that differs, of a file where that is known


@dataclass(frozen=True)
class Miss:
    """Why a lookup failed.

    `reason` is "new" where nothing of that name is stored, "inputs" or "headers" where `changes` say what differs from
    the nearest artefact, and "lost" where the artefact was built but is gone or damaged.
    """

    reason: Literal["new", "inputs", "headers", "lost"]
    changes: tuple[Change, ...] = ()
    nearest: Artifact | None = None


def explain_miss(
    store: Store, name: str, inputs: Mapping[str, str], *, roots: Mapping[str, Path] = NO_ROOTS
) -> Miss | None:
    """Return why `store.find` gives nothing for these inputs, or None if it gives an artefact.

    Raises StoreError as that does: nothing is found in a store that others could write to, whatever is in it.
    """
    source_key = keys.source_key(inputs)
    if store.find(source_key, roots=roots):
        return None
    miss = _explain_headers(store, source_key, roots) or _explain_inputs(store, name, inputs)
    return replace(miss, changes=_with_lines(miss, roots))


def _explain_headers(store: Store, source_key: str, roots: Mapping[str, Path]) -> Miss | None:
    digests = HeaderDigests(roots)
    records = read_records(store.layout.index(source_key))
    if not records:
        return None
    changed = {record.artifact: changed_headers(record, digests) for record in records}
    nearest = min(changed, key=lambda artifact: len(changed[artifact]))
    if not changed[nearest]:
        return Miss("lost")
    then = next(record.headers for record in records if record.artifact == nearest)
    changes = tuple(Change(name, "added" if then[name] == ABSENT else "changed") for name in changed[nearest])
    folder = store.layout.artifact(nearest)
    manifest = read_manifest(folder)
    return Miss("headers", changes, Artifact(nearest, folder, manifest) if manifest else None)


def _explain_inputs(store: Store, name: str, inputs: Mapping[str, str]) -> Miss:
    others = [artifact for artifact in store.artifacts() if artifact.manifest.name == name]
    if not others:
        return Miss("new")
    others.sort(key=lambda artifact: artifact.manifest.created, reverse=True)
    changes = {artifact.key: compare_inputs(artifact.manifest.inputs, inputs) for artifact in others}
    nearest = min(others, key=lambda artifact: len(changes[artifact.key]))
    # The same inputs, and no record of them: the index was lost, not the inputs changed.
    return Miss("inputs" if changes[nearest.key] else "lost", changes[nearest.key], nearest)


def compare_inputs(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Change, ...]:
    """Return what differs between the inputs of two builds."""
    changed = [Change(name, "changed") for name in new if name in old and old[name] != new[name]]
    added = [Change(name, "added") for name in new if name not in old]
    removed = [Change(name, "removed") for name in old if name not in new]
    return (*changed, *added, *removed)


def _with_lines(miss: Miss, roots: Mapping[str, Path]) -> tuple[Change, ...]:
    if miss.nearest is None:
        return miss.changes
    folder = miss.nearest.folder
    return tuple(
        replace(change, line=first_changed_line(folder, change.name, roots)) if change.kind == "changed" else change
        for change in miss.changes
    )
