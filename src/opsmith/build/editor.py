"""Records for editors how sources are compiled in builds that they cannot see.

Next to the store's artefacts is a folder for them: for each extension and project the compilation database and the
generated sources. It is written before the build, because a source that does not compile is when an editor is needed
most. A user's folder is written only on request: OPSMITH_COMPILE_COMMANDS, or `opsmith editor`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith import _env
from opsmith.build.compile_commands import DATABASE, Entry, merge_database, plan_entries, read_database
from opsmith.errors import BuildError, OpsmithError
from opsmith.store import Store, digest
from opsmith.store.lock import hold_lock
from opsmith.store.safety import make_folder
from opsmith.store.staging import reserve_part

if TYPE_CHECKING:
    from opsmith.build.plan import Plan

__all__ = ["known_entries", "note_for_editors", "publish_entries", "write_editor_files"]


def note_for_editors(plan: Plan, store: Store) -> None:
    """Write what editors need of a build into the store, and into the folder that the user named, if any.

    This is not part of the build: a failure to write gives a warning, and only for the user's own folder.
    """
    try:
        entries = write_editor_files(plan, store)
    except OSError:
        return
    try:
        if (folder := _env.read_path("OPSMITH_COMPILE_COMMANDS")) is not None:
            publish_entries(entries, folder, store)
    except (OSError, OpsmithError) as error:
        warnings.warn(f"OPSMITH_COMPILE_COMMANDS: {error}", RuntimeWarning, stacklevel=2)


def write_editor_files(plan: Plan, store: Store) -> list[Entry]:
    """Write a plan's generated files and its database into the store and return the entries. Raises OSError."""
    folder = _editor_folder(store) / f"{plan.extension.name}-{digest(str(plan.extension.root))[:12]}"
    entries = plan_entries(plan, folder)
    make_folder(folder)
    for name, text in plan.files.items():
        _put(folder / name, text.encode(), store)
    _put(folder / DATABASE, _to_json(entries), store)
    return entries


def known_entries(store: Store, folder: Path) -> Iterator[Entry]:
    """Yield the entries of all builds that the store knows for the files below a folder, or for one file."""
    for database in sorted(_editor_folder(store).glob(f"*/{DATABASE}")):
        with suppress(BuildError):
            found = read_database(database)
            if any(_is_below(entry, folder) for entry in found):
                yield from (entry for entry in found if Path(str(entry["file"])).is_file())


def publish_entries(entries: Iterable[Entry], folder: Path, store: Store) -> Path:
    """Merge entries into the database of a folder and return its file; other tools' entries stay.

    Raises OSError, StoreError if the store cannot be written, and BuildError if a file of that name exists and is not a
    database.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DATABASE
    lock = _editor_folder(store) / f"{digest(str(path))[:12]}.lock"
    with hold_lock(lock, root=store.root):
        merged = _to_json(merge_database(path, entries))
        if not path.exists() or path.read_bytes() != merged:
            _replace(path, merged)
    return path


def _editor_folder(store: Store) -> Path:
    return store.layout.base / "editor"


def _is_below(entry: Entry, folder: Path) -> bool:
    return Path(str(entry["file"])).is_relative_to(folder)


def _to_json(entries: Iterable[Entry]) -> bytes:
    return (json.dumps(list(entries), indent=1) + "\n").encode()


def _put(path: Path, data: bytes, store: Store) -> None:
    from opsmith.store.files import write_atomic

    if not path.is_file() or path.read_bytes() != data:
        write_atomic(path, data, scratch=store.layout.staging, durable=False)


def _replace(path: Path, data: bytes) -> None:
    """Write a file next to it and rename: an editor may read the file at any time."""
    part = reserve_part(path)
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
