"""How is an artefact found, and how is a new one published?

Publication is one rename of a folder that is complete and on the disk, so a reader sees an artefact whole or not at
all, and a process may be killed at any point. Artefacts never change afterwards. No time stamp decides which is used.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from opsmith.errors import StoreError
from opsmith.store import keys
from opsmith.store.files import explain_os_errors, sync_folder, sync_tree
from opsmith.store.headers import HeaderDigests, portable_name
from opsmith.store.index import Record, is_current, read_records, write_record
from opsmith.store.locate import Layout
from opsmith.store.lock import hold_lock
from opsmith.store.manifest import MANIFEST_NAME, Manifest
from opsmith.store.staging import make_staging, remove, reserve_name

__all__ = ["NO_ROOTS", "Artifact", "Store"]

NO_ROOTS: Mapping[str, Path] = MappingProxyType({})

# What rename answers where the target exists: a full folder, or a file.
_TAKEN = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})

# A damaged artefact is moved aside and ours put in its place. Others may do the same, so ours may lose again; after a
# few rounds something else is wrong.
_PUBLISH_ATTEMPTS = 5


@dataclass(frozen=True)
class Artifact:
    """One stored artefact: its key, its folder, and its manifest."""

    key: str
    folder: Path
    manifest: Manifest

    @property
    def library(self) -> Path:
        """Path of the binary."""
        return self.folder / self.manifest.library


@dataclass(frozen=True)
class Store:
    """The artefacts below one root folder. Reading needs no write access; nothing is created before it is needed."""

    root: Path

    @property
    def layout(self) -> Layout:
        """The paths below the root."""
        return Layout(self.root)

    def find(self, source_key: str, *, roots: Mapping[str, Path] = NO_ROOTS) -> Artifact | None:
        """Return the artefact of a source key and of the headers as they are now, or None.

        `roots` names folders, such as the checkout or torch's own, below which headers were recorded by relative path.
        A binary that is not, byte for byte, what its manifest says counts as none. Raises nothing.
        """
        digests = HeaderDigests(roots)
        for record in read_records(self.layout.index(source_key)):
            if is_current(record, digests) and (artifact := _read_intact(self.layout.artifact(record.artifact))):
                return artifact
        return None

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Give a private, empty folder on the store's file system; it is removed at the end if it is still there.

        `publish` takes this folder or one below it, so what must not be published (objects, logs) goes beside that.
        Raises StoreError where it cannot be made.
        """
        with explain_os_errors(self.root):
            folder = make_staging(self.layout.staging)
        try:
            yield folder
        finally:
            remove(folder)

    def lock(self, source_key: str, on_wait: Callable[[float], None] | None = None) -> AbstractContextManager[None]:
        """Hold the lock of a source key during a `with` block.

        It only saves double work: look with `find` again once it is held. `on_wait` is told, at once and then every
        half second, how many seconds this has waited. Raises StoreError where the lock file cannot be made.
        """
        return hold_lock(self.layout.lock(source_key), root=self.root, on_wait=on_wait)

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

        `headers` are the absolute paths and digests of the headers that the compiler read (`digest_headers`). Those in
        a staging folder are left out: nobody will find them there, and generated text is part of the source key.
        Where another process has published the same artefact already, theirs is returned and ours is dropped.

        Raises StoreError where the store cannot be written or the binary is not what the manifest says, and ValueError
        where `manifest.inputs` are not those of the source key.
        """
        if keys.source_key(manifest.inputs) != source_key:
            raise ValueError("manifest.inputs are not the inputs that source_key was made from")
        kept = {path: digest for path, digest in headers.items() if not Path(path).is_relative_to(self.layout.staging)}
        names = {portable_name(path, roots): digest for path, digest in kept.items()}
        key = keys.artifact_key(source_key, names)
        with explain_os_errors(self.root):
            (staging / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
            if not _is_intact(staging, manifest):
                raise StoreError(f"{staging / manifest.library} changed between its description and its publication")
            sync_tree(staging)
            artifact = self._install(staging, self.layout.artifact(key))
            write_record(self.layout.index(source_key), Record(names, key), scratch=self.layout.staging)
        return artifact

    def artifacts(self) -> Iterator[Artifact]:
        """Yield every artefact with a readable manifest; the binaries are not looked at."""
        for folder in sorted(self.layout.artifacts.glob("*/*")):
            if manifest := _read_manifest(folder):
                yield Artifact(folder.name, folder, manifest)

    def remove(self, artifact: Artifact) -> None:
        """Remove an artefact; one that is gone already is no error. Raises StoreError where it cannot be removed."""
        with explain_os_errors(self.root):
            self._move_aside(artifact.folder)

    def _install(self, staging: Path, target: Path) -> Artifact:
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_PUBLISH_ATTEMPTS):
            try:
                staging.rename(target)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                sync_folder(target.parent)
            if artifact := _read_intact(target):
                remove(staging)
                return artifact
            self._move_aside(target)
        raise StoreError(f"{target} is damaged again as soon as it is published; look at the disk")

    def _move_aside(self, folder: Path) -> None:
        # A rename first: readers must not meet a folder that is half removed.
        self.layout.staging.mkdir(parents=True, exist_ok=True)
        aside = reserve_name(self.layout.staging)
        with suppress(FileNotFoundError):
            folder.rename(aside)
            remove(aside)


def _read_manifest(folder: Path) -> Manifest | None:
    try:
        return Manifest.from_json((folder / MANIFEST_NAME).read_bytes())
    except OSError:
        return None


def _is_intact(folder: Path, manifest: Manifest) -> bool:
    library = folder / manifest.library
    try:
        return library.stat().st_size == manifest.size_bytes and keys.digest_file(library) == manifest.sha256
    except OSError:
        return False


def _read_intact(folder: Path) -> Artifact | None:
    manifest = _read_manifest(folder)
    return Artifact(folder.name, folder, manifest) if manifest and _is_intact(folder, manifest) else None
