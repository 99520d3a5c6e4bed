"""Finds artefacts in the store and publishes new ones.

Publication is one rename of a folder that is complete and on the disk, so a reader sees an artefact whole or not at
all, and a process may be killed at any point. Artefacts never change afterwards. No time stamp decides which is used.
"""

from __future__ import annotations

import errno
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType

from opsmith.errors import BuildError, StoreError
from opsmith.store import keys
from opsmith.store.by_key import get_artifact
from opsmith.store.files import DISK_FULL, explain_os_errors, list_files, refuse_full, sync_folder, sync_tree
from opsmith.store.headers import HeaderDigests, portable_name
from opsmith.store.index import Record, is_current, read_records, write_record
from opsmith.store.intact import (
    Artifact,
    await_artifact,
    digest_beside,
    find_damage,
    look_again,
    read_artifact,
    read_manifest,
    retry_stale,
)
from opsmith.store.locate import Layout, stands_in_for
from opsmith.store.lock import hold_lock
from opsmith.store.manifest import MANIFEST_NAME, Manifest
from opsmith.store.safety import make_folder, refuse_unsafe, seal_tree
from opsmith.store.staging import make_private, make_staging, move_aside, remove
from opsmith.store.usage import note_use

__all__ = ["NO_ROOTS", "Artifact", "Store"]

NO_ROOTS: Mapping[str, Path] = MappingProxyType({})

# What rename answers where the target exists: a full folder, or a file.
_TAKEN = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})

# A damaged artefact is moved aside and ours put in its place. Others may do the same, so ours may lose again; after a
# few rounds something else is wrong.
_PUBLISH_ATTEMPTS = 5

# A record that is younger may be visible on NFS before its artefact is.
_FRESH_S = 60.0

# The roots that this process has warned of as temporary.
_warned: set[Path] = set()


class Store:
    """The artefacts below one root folder. Reading needs no write access; nothing is created before it is needed."""

    def __init__(self, root: Path) -> None:
        """Return the store of a root; nothing is looked at."""
        self.root = root
        self.layout = Layout(root)

    def find(self, source_key: str, *, roots: Mapping[str, Path] = NO_ROOTS, at_sight: bool = False) -> Artifact | None:
        """Return the artefact of a source key and of the headers as they are now, or None.

        `roots` names folders, such as the checkout or torch's own, below which headers were recorded by relative path.
        A binary that is not, byte for byte, what its manifest says counts as none. At sight, only its size is compared:
        callers that skip it call `find_damage` before they rely on the binary. Raises StoreError if
        others than this user and root could have written to the store.
        """
        refuse_unsafe(*self.layout.guarded)
        digests = HeaderDigests(roots)
        folder = self.layout.index(source_key)
        for record in read_records(folder):
            if is_current(record, digests) and (artifact := self._read(record, folder, at_sight)):
                return artifact
        behind = stands_in_for(self.root)
        if behind is None or not behind.is_dir():
            return None
        return Store(behind).find(source_key, roots=roots, at_sight=at_sight)

    def get(self, artifact_key: str) -> Artifact | None:
        """Return the artefact of this key where it is there and whole, or None; raises StoreError as `find`."""
        return get_artifact(self.layout, artifact_key)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Give a private, empty folder on the store's file system; it is removed at the end if it is still there.

        `publish` takes this folder or one below it, so what must not be published (objects, logs) goes beside that.
        Raises StoreError if it cannot be made or others could write to it.
        """
        refuse_unsafe(*self.layout.guarded)
        self._warn_of_stand_in()
        with explain_os_errors(self.root):
            folder = make_staging(self.layout.staging)
        try:
            yield folder
        except OSError as error:
            # What the caller writes there fails as anything of the store's would.
            with explain_os_errors(self.root) if error.errno in DISK_FULL else nullcontext():
                raise
        except BuildError as error:
            # Some tools die silently if they cannot write.
            refuse_full(self.root, error)
            raise
        finally:
            remove(folder)

    @contextmanager
    def lock(
        self,
        source_key: str,
        on_wait: Callable[[float], None] | None = None,
        is_settled: Callable[[], bool] | None = None,
    ) -> Iterator[bool]:
        """Hold the lock of a source key during a `with` block, and say whether it is held.

        It only saves double work: look with `find` again once it is held. `on_wait` is called at once and then every
        half second, how many seconds this has waited. Where `is_settled` finds meanwhile that another process has done
        the work, the block runs at once, without the lock: many then need not queue up for it. Raises StoreError if
        the lock file cannot be made, and as `find`.
        """
        refuse_unsafe(*self.layout.guarded)
        waited = False

        def wait(seconds: float) -> None:
            nonlocal waited
            waited = True
            if on_wait is not None:
                on_wait(seconds)

        with hold_lock(self.layout.lock(source_key), root=self.root, on_wait=wait, is_settled=is_settled) as is_held:
            if waited:
                index = self.layout.index(source_key)
                look_again(index.parent)
                look_again(index)
            yield is_held

    def publish(
        self,
        source_key: str,
        staging: Path,
        *,
        manifest: Manifest,
        headers: Mapping[str, str],
        roots: Mapping[str, Path] = NO_ROOTS,
    ) -> Artifact:
        """Move a finished staging folder into the store and return the artefact.

        `headers` are the absolute paths and digests of the headers that the compiler read (`digest_headers`), and those
        of paths at which a header would have been read, each with ABSENT. Those in
        a staging folder are left out: no one can find them there, and generated text is part of the source key.
        Where another process has published the same artefact already, theirs is returned and ours is dropped.

        Raises StoreError if the store cannot be written or the binary is not what the manifest says, and ValueError
        if `manifest.inputs` are not those of the source key.
        """
        if keys.source_key(manifest.inputs) != source_key:
            raise ValueError("manifest.inputs are not the inputs that source_key was made from")
        kept = {path: digest for path, digest in headers.items() if not Path(path).is_relative_to(self.layout.staging)}
        names = {portable_name(path, roots): digest for path, digest in kept.items()}
        key = keys.artifact_key(source_key, names)
        # Never on the way of a load.
        from opsmith.store.eviction import keep_bounded
        from opsmith.store.lines import write_lines

        with explain_os_errors(self.root):
            write_lines(staging, manifest.inputs, names, roots)
            manifest = manifest._replace(files=digest_beside(staging, manifest.library))
            (staging / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
            artifact = self.admit(source_key, staging, Record(names, key))
        keep_bounded(self.layout, artifact)
        return artifact

    def admit(self, source_key: str, folder: Path, record: Record) -> Artifact:
        """Move a folder of the staging area that is a whole artefact, manifest included, into the store.

        What is there already and whole stays, and is returned. Raises StoreError if the folder is not what its
        manifest says, and OSError or StoreError if the store cannot be written.
        """
        make_folder(self.layout.artifacts)
        seal_tree(folder, self.layout.artifacts.stat().st_mode)
        manifest = read_manifest(folder)
        damage = "its manifest cannot be read" if manifest is None else find_damage(folder, manifest)
        if damage is not None:
            raise StoreError(f"{folder} changed between its description and its publication: {damage}")
        sync_tree(folder)
        artifact = self._install(folder, self.layout.artifact(record.artifact))
        write_record(self.layout.index(source_key), record, scratch=self.layout.staging)
        return artifact

    def artifacts(self) -> Iterator[Artifact]:
        """Yield every artefact with a readable manifest; the binaries are not looked at."""
        for folder in list_files(self.layout.artifacts, "", depth=1):
            if manifest := read_manifest(folder):
                yield Artifact(folder.name, folder, manifest)

    def remove(self, artifact: Artifact) -> None:
        """Remove an artefact and its record; what is gone already is not an error. Raises StoreError if it cannot be."""
        record = self.layout.index(keys.source_key(artifact.manifest.inputs)) / f"{artifact.key}.json"
        with explain_os_errors(self.root):
            # The record first: readers that find it expect the artefact.
            record.unlink(missing_ok=True)
            move_aside(artifact.folder, self.layout.staging)

    def _read(self, record: Record, index: Path, at_sight: bool) -> Artifact | None:
        folder = self.layout.artifact(record.artifact)
        if (artifact := self._use(folder, at_sight)) is None and not folder.exists() and _is_fresh(index, record):
            artifact = await_artifact(folder)
        return artifact

    def _use(self, folder: Path, at_sight: bool = False) -> Artifact | None:
        # Noted before it is read: an eviction then either sees the note, or is so early that the
        # reading fails.
        note_use(folder)
        return read_artifact(folder, at_sight=at_sight)

    def _install(self, staging: Path, target: Path) -> Artifact:
        make_private(target.parent, self.layout.staging)
        for _ in range(_PUBLISH_ATTEMPTS):
            try:
                retry_stale(lambda: staging.rename(target))
            except FileNotFoundError:
                # An NFS server that has renamed may be asked again, where its answer was lost.
                if not target.exists():
                    raise
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                sync_folder(target.parent)
            if artifact := read_artifact(target):
                remove(staging)
                return artifact
            move_aside(target, self.layout.staging)
        raise StoreError(f"{target} is damaged immediately after publication; check the disk")

    def _warn_of_stand_in(self) -> None:
        wanted = stands_in_for(self.root)
        if wanted is None or self.root in _warned:
            return
        _warned.add(self.root)
        warnings.warn(
            f"opsmith cannot write to its store {wanted}; builds are kept in {self.root}, which may be temporary. Set "
            "OPSMITH_CACHE_DIR to a folder that can be written",
            RuntimeWarning,
            stacklevel=4,
        )


def _is_fresh(index: Path, record: Record) -> bool:
    try:
        written_s = (index / f"{record.artifact}.json").stat().st_mtime
    except OSError:
        return False
    return abs(time.time() - written_s) < _FRESH_S
