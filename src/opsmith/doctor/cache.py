"""Examines the store: where it is, how full it is, and whether only its owner may write to it."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from opsmith.doctor.finding import Finding, ok, problem, warning
from opsmith.errors import OpsmithError
from opsmith.store import Layout, default_root
from opsmith.store.eviction import list_entries, size_limit
from opsmith.store.locate import wanted_root
from opsmith.store.safety import find_danger
from opsmith.store.units import show_age, show_size

__all__ = ["CacheState", "find_cache_state", "judge_cache"]

_TOPIC = "cache"

# From here on the oldest entries go soon; and a build of a few large sources needs that much of the disk.
_NEARLY_FULL = 0.9
_SCANT_BYTES = 1_000_000_000


@dataclass(frozen=True)
class CacheState:
    """The store as it lies on the disk. `last_used_s` is the age of the last use; None if the store is empty."""

    root: Path
    wanted: Path  # what the user asked for; another where that cannot be written
    size_bytes: int
    limit_bytes: int | None
    limit_error: str | None
    count: int
    last_used_s: float | None
    free_bytes: int | None
    danger: str | None  # who else could write there


def find_cache_state() -> CacheState:
    """Return the state of this user's store; nothing is created or changed."""
    root = default_root()
    entries = list(list_entries(Layout(root))) if root.is_dir() else []
    limit, error = None, None
    try:
        limit = size_limit()
    except OpsmithError as refusal:
        error = str(refusal)
    return CacheState(
        root=root,
        wanted=wanted_root(),
        size_bytes=sum(entry.size_bytes for entry in entries),
        limit_bytes=limit,
        limit_error=error,
        count=len(entries),
        last_used_s=time.time() - max(entry.last_used_s for entry in entries) if entries else None,
        free_bytes=_free_bytes(root),
        danger=find_danger(root),
    )


def judge_cache(state: CacheState) -> tuple[Finding, ...]:
    """Return what there is to say about the store."""
    found = [_judge_place(state)]
    if state.limit_error is not None:
        found.append(problem(_TOPIC, "cache: invalid size", state.limit_error, "unset OPSMITH_CACHE_SIZE"))
    elif state.limit_bytes is not None and state.size_bytes > _NEARLY_FULL * state.limit_bytes:
        title = f"cache: {show_size(state.size_bytes)} of {show_size(state.limit_bytes)}; the oldest are removed next"
        remedy = f"export OPSMITH_CACHE_SIZE={show_size(2 * state.limit_bytes).replace(' ', '')}"
        found.append(warning(_TOPIC, title, str(state.root), remedy))
    if state.free_bytes is not None and state.free_bytes < _SCANT_BYTES:
        title = f"disk of the cache: {show_size(state.free_bytes)} free"
        found.append(warning(_TOPIC, title, str(state.root), "export OPSMITH_CACHE_DIR=/path/on/another/disk"))
    return tuple(found)


def _judge_place(state: CacheState) -> Finding:
    if state.danger is not None:
        return problem(
            _TOPIC,
            "cache: others can write to it",
            f"{state.root}: {state.danger}. opsmith does not load anything from there.",
            f"chmod -R go-w {state.root}   (or: export OPSMITH_CACHE_DIR=~/.cache/opsmith)",
        )
    if state.root != state.wanted:
        return warning(
            _TOPIC,
            "cache: cannot be written",
            f"{state.wanted} cannot be written; builds go to {state.root}, which may be temporary.",
            "export OPSMITH_CACHE_DIR=/a/folder/of/your/own",
        )
    age = f", last used {show_age(state.last_used_s)}" if state.last_used_s is not None else ""
    limit = f" of {show_size(state.limit_bytes)}" if state.limit_bytes else ""
    detail = f"{state.root}: {state.count} artefact{'' if state.count == 1 else 's'}{age}"
    return ok(_TOPIC, f"cache {show_size(state.size_bytes)}{limit}", detail)


def _free_bytes(folder: Path) -> int | None:
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
