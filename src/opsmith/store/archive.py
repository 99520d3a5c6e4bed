"""Packs artefacts into one file for another machine, and unpacks them.

An archive is a zip file:

    opsmith-archive.json                    {"format": 1, "platform": "linux-x86_64-glibc2.36"}
    <artefact key>/record.json              the headers of the build, by portable name, with their digests
    <artefact key>/artifact/manifest.json
    <artefact key>/artifact/<library>, and whatever else the manifest lists

Nothing is unpacked by the names in the archive: only what a manifest lists is read, under names that were checked, and
only after the keys were computed anew. An artefact is code. Importing an archive means trusting whoever made it.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsmith._printable import printable
from opsmith.errors import StoreError
from opsmith.store import keys
from opsmith.store.artifact_store import Store
from opsmith.store.files import explain_os_errors
from opsmith.store.headers import is_portable_name
from opsmith.store.index import Record, read_record, record_bytes
from opsmith.store.intact import Artifact, find_damage
from opsmith.store.machine import check_platform, platform_name
from opsmith.store.manifest import MANIFEST_NAME, Manifest
from opsmith.store.reading import open_regular, parse_json
from opsmith.store.safety import seal_tree
from opsmith.store.staging import reserve_part

__all__ = ["Imported", "check_identity", "export_archive", "find_record", "import_archive"]

_HEAD = "opsmith-archive.json"
_FORMAT_VERSION = 1

# A head, a record or a manifest is a few KB. Who sends more wants to fill the memory.
_MAX_TEXT_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20

# Machine code shrinks to a tenth, and zeros to a thousandth: what grows so much is there to fill the disk.
_MAX_GROWTH = 100
_SMALL_BYTES = 64 << 20

# What `export_archive` writes. Others, such as LZMA, take as much memory as the archive asks for.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Imported:
    """What an import did: the artefacts that are new here, and those that were already present."""

    added: tuple[Artifact, ...]
    present: tuple[Artifact, ...]


def export_archive(store: Store, file: Path, artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
    """Write artefacts into an archive, and return them. What lay there is replaced once the archive is whole.

    Raises StoreError if an artefact is damaged or has no record, or the file cannot be written.
    """
    chosen = tuple(artifacts)
    part = reserve_part(file)
    try:
        # A zip file has no times before 1980, which files of images and of reproducible builds often have.
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6, strict_timestamps=False) as archive:
            archive.writestr(_HEAD, json.dumps({"format": _FORMAT_VERSION, "platform": platform_name()}))
            for artifact in chosen:
                _write(archive, store, artifact)
        part.replace(file)
    except OSError as error:
        raise StoreError(f"the archive {file} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    return chosen


def import_archive(store: Store, file: Path) -> Imported:
    """Put the artefacts of an archive into the store: all of them, or where one is not as it should be, none.

    What is in the store already stays as it is. Raises StoreError if the archive is damaged, was made for another
    kind of machine, or holds anything that is not what its key and its manifest say.
    """
    try:
        with _Source(open_regular(file)) as source, zipfile.ZipFile(source) as archive, ExitStack() as stack:
            _check_growth(archive, file)
            check_platform(printable(str(_json(archive, _HEAD, _FORMAT_VERSION).get("platform"))), str(file))
            names = sorted({name.partition("/")[0] for name in archive.namelist() if "/" in name})
            staged = []
            if not all(map(keys.is_key, names)):
                raise StoreError(f"{file} is not an opsmith archive: it has a folder that is not an artefact's")
            for key in names:
                folder = stack.enter_context(store.staging()) / "artifact"
                staged.append((*_stage(archive, key, folder), folder))
            return _admit_all(store, staged)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{file} is not an opsmith archive, or is damaged: {printable(str(error))}") from error
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror or error}") from error


class _Source(io.BufferedReader):
    """The file of an archive, of which no more is read at once than belongs into memory, whatever its directory says."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MAX_TEXT_BYTES:
            raise zipfile.BadZipFile(f"its directory has {size} bytes")
        return super().read(size)


def _check_growth(archive: zipfile.ZipFile, file: Path) -> None:
    """Raise StoreError if an archive would take far more of the disk than it has itself."""
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if size > max(_MAX_GROWTH * file.stat().st_size, _SMALL_BYTES):
        raise StoreError(f"{file} would grow from {file.stat().st_size} to {size} bytes; nothing of it is unpacked")
    if any(member.compress_type not in _METHODS for member in members):
        raise StoreError(f"{file} is not an opsmith archive: it is compressed in another way")


def find_record(store: Store, artifact: Artifact) -> Record:
    """Return the record of an artefact; raises StoreError if it is lost."""
    index = store.layout.index(keys.source_key(artifact.manifest.inputs))
    record = read_record(index / f"{artifact.key}.json")
    if record is None:
        raise StoreError(f"the record of {artifact.manifest.name} ({artifact.key[:12]}) is lost; rebuild it")
    return record


def check_identity(key: str, manifest: Manifest, record: Record, where: str) -> str:
    """Return the source key of an artefact whose key really is that of its inputs and headers.

    Raises StoreError, that names `where` it comes from, otherwise.
    """
    source = keys.source_key(manifest.inputs)
    if record.artifact != key or keys.artifact_key(source, record.headers) != key:
        raise StoreError(f"{where}: the artefact {key[:12]} does not match its key; none of it is used")
    if not all(map(is_portable_name, record.headers)):
        raise StoreError(f"{where}: the artefact {key[:12]} names impossible headers")
    return source


def _write(archive: zipfile.ZipFile, store: Store, artifact: Artifact) -> None:
    manifest = artifact.manifest
    if (damage := find_damage(artifact.folder, manifest)) is not None:
        raise StoreError(
            f"{manifest.name} ({artifact.key[:12]}) is damaged: {damage}. `opsmith cache verify --fix` removes it"
        )
    archive.writestr(f"{artifact.key}/record.json", record_bytes(find_record(store, artifact)))
    for name in (MANIFEST_NAME, manifest.library, *manifest.files):
        archive.write(artifact.folder / name, f"{artifact.key}/artifact/{name}")


def _stage(archive: zipfile.ZipFile, key: str, folder: Path) -> tuple[str, Record]:
    """Write an artefact's files into a folder of the staging area, checked; return its source key and its record."""
    where = str(archive.filename)
    record = Record.from_json(_read(archive, f"{key}/record.json"))
    text = _read(archive, f"{key}/artifact/{MANIFEST_NAME}")
    manifest = Manifest.from_json(text)
    if record is None or manifest is None:
        raise StoreError(f"{where}: the record or the manifest of {key[:12]} is missing or damaged")
    source = check_identity(key, manifest, record, where)
    folder.mkdir()
    (folder / MANIFEST_NAME).write_bytes(text)
    for name in (manifest.library, *manifest.files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _unpack(archive, f"{key}/artifact/{name}", folder / name)
    seal_tree(folder, folder.parent.stat().st_mode)
    if (damage := find_damage(folder, manifest)) is not None:
        raise StoreError(f"{where}: {manifest.name} ({key[:12]}) is damaged: {damage}")
    return source, record


def _admit_all(store: Store, staged: list[tuple[str, Record, Path]]) -> Imported:
    added: list[Artifact] = []
    present: list[Artifact] = []
    with explain_os_errors(store.root):
        for source, record, folder in staged:
            known = store.get(record.artifact)
            artifact = store.admit(source, folder, record)
            (present if known else added).append(artifact)
    return Imported(tuple(added), tuple(present))


def _unpack(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    # Not ZipFile.extract, which takes the path from the archive. No member gives more than the size that was checked.
    with _member(archive, name) as member, target.open("xb") as file:
        shutil.copyfileobj(member, file, _CHUNK_BYTES)


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    with _member(archive, name) as member:
        data: bytes = member.read(_MAX_TEXT_BYTES + 1)
    if len(data) > _MAX_TEXT_BYTES:
        raise StoreError(f"{archive.filename}: {name} is larger than such a file can be")
    return data


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    try:
        return archive.open(name)
    except KeyError:
        raise StoreError(f"{archive.filename} has no {name}: it is not an opsmith archive, or is damaged") from None


def _json(archive: zipfile.ZipFile, name: str, version: int) -> dict[str, Any]:
    try:
        content = parse_json(_read(archive, name))
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("format") != version:
        raise StoreError(
            f"{archive.filename} is not an archive that this version of opsmith can read; export it with the same version"
        )
    return content
