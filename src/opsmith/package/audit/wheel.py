"""Reads a wheel: its name, its metadata, its list of files, and every library in it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from opsmith.errors import AuditError
from opsmith.package.audit.archive import Archive, open_archive
from opsmith.package.audit.elf import Bytes, is_read
from opsmith.package.audit.facts import Facts, Library, Member, Wheel
from opsmith.package.audit.finding import Finding, fault, note
from opsmith.package.audit.library import describe_library, with_needs
from opsmith.package.standalone.imports import find_imports
from opsmith.package.standalone.modules import FOLDER

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.tags import Tag

    from opsmith.store import Manifest

__all__ = ["read_wheel"]

_REBUILD = "build the wheel again, with `pip wheel .` or `python -m build`"
_IMPORT = re.compile(r"^(?:import|from) opsmith\b", re.MULTILINE)
_FOREIGN = (".pyd", ".dll", ".dylib")


def read_wheel(path: Path) -> Facts:
    """Return the facts about a wheel. Raises AuditError if it is not one, and OSError."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise AuditError(f"{error}; wheels are called NAME-VERSION-PYTHON-ABI-PLATFORM.whl") from None
    with open_archive(path) as archive:
        problems: list[Finding] = []
        info = _info_folder(archive, str(name))
        members, libraries = _read_members(archive, problems)
        copies = tuple(_copies(archive))
        metadata = _headers(archive, f"{info}/METADATA", problems)
        about = _headers(archive, f"{info}/WHEEL", problems)
        wheel = Wheel(
            file_name=path.name,
            name=str(name),
            version=str(version),
            tags=tags,
            declared=frozenset(_tags(about)),
            is_pure=about.get("root-is-purelib", [""])[0].strip().lower() == "true",
            requires=tuple(_requirements(metadata, problems)),
            requires_python=metadata.get("requires-python", [""])[0],
            members=members,
            record=_record(archive, f"{info}/RECORD", problems),
            licences=tuple(_licences(archive, info)),
            imports_opsmith=_importer(archive, copies) if any(library.manifest for library in libraries) else "",
            has_foreign_binaries=any(member.name.endswith(_FOREIGN) for member in members),
            copies=copies,
        )
    return Facts(path.name, path.stat().st_size, libraries, wheel, tuple(problems))


def _info_folder(archive: Archive, name: str) -> str:
    """Return the name of the folder with the metadata."""
    folders = {PurePosixPath(file).parts[0] for file in archive.names if ".dist-info/" in file}
    folders = {folder for folder in folders if folder.endswith(".dist-info")}
    if len(folders) != 1:
        raise AuditError(
            f"it is not a wheel: it has {len(folders)} folders NAME-VERSION.dist-info, and a wheel has one"
        )
    folder = folders.pop()
    from packaging.utils import canonicalize_name

    if canonicalize_name(folder.partition("-")[0]) != name:
        raise AuditError(f"its metadata is in {folder}, which is not that of {name}")
    return folder


def _read_members(archive: Archive, problems: list[Finding]) -> tuple[tuple[Member, ...], tuple[Library, ...]]:
    members, libraries = [], []
    others: list[str] = []

    def look(name: str, data: Bytes) -> Library | None:
        if len(data) > 64 and not is_read(data):
            others.append(name)
            return None
        try:
            return describe_library(name, data)
        except AuditError as error:
            problems.append(
                fault("broken-library", f"{name} cannot be read", detail=str(error), remedy=_REBUILD, where=name)
            )
            return None

    for name in archive.names:
        try:
            member, library = archive.read(name, look)
        except AuditError as error:
            problems.append(
                fault("broken-file", f"{name} cannot be read", detail=str(error), remedy=_REBUILD, where=name)
            )
            continue
        members.append(member)
        if library is not None:
            libraries.append(replace(library, manifest=_manifest_of(archive, library)))
    if others:
        title = f"{others[0]} is a library of 32 bits or big-endian; no such are read"
        problems.append(note("other-platform", title, where=others[0]))
    return tuple(members), with_needs(tuple(libraries))


def _manifest_of(archive: Archive, library: Library) -> Manifest | None:
    """Return what opsmith has written beside a library, if it was opsmith that built it."""
    from opsmith.store import Manifest

    name = str(PurePosixPath(library.path).with_suffix(".json"))
    with suppress(AuditError, KeyError):
        return Manifest.from_json(archive.text(name))
    return None


def _copies(archive: Archive) -> Iterator[str]:
    """Yield the copies of opsmith's runtime, by the file that says whose they are."""
    for name in archive.names:
        path = PurePosixPath(name)
        if path.parts[-2:] == (FOLDER, "_standalone.py"):
            yield ".".join(path.parts[:-1])


def _importer(archive: Archive, copies: Sequence[str]) -> str:
    """Return the first module that imports opsmith, or nothing.

    A standalone wheel must not do so anywhere; others may where they do without it, inside functions.
    """
    for name in archive.names:
        with suppress(AuditError, SyntaxError, ValueError):  # a damaged module has a fault of its own
            if not name.endswith(".py") or "opsmith" not in (text := archive.text(name)):
                continue
            if any(find_imports(text.encode())) if copies else _IMPORT.search(text):
                return name
    return ""


def _licences(archive: Archive, folder: str) -> Iterator[str]:
    """Yield the licence files: in a folder of their own since PEP 639, beside the metadata before."""
    for name in archive.names:
        if name.startswith((f"{folder}/licenses/", f"{folder}/LICEN", f"{folder}/COPYING")):
            yield name


def _headers(archive: Archive, name: str, problems: list[Finding]) -> Mapping[str, list[str]]:
    if name not in archive.names:
        problems.append(fault("missing-metadata", f"{name} is missing", remedy=_REBUILD))
        return {}
    found: dict[str, list[str]] = {}
    for key, value in HeaderParser().parsestr(archive.text(name)).items():
        found.setdefault(key.lower(), []).append(str(value))
    return found


def _tags(wheel: Mapping[str, list[str]]) -> Iterator[Tag]:
    from packaging.tags import parse_tag

    for text in wheel.get("tag", []):
        # A damaged tag differs from the name's, which is a finding of its own.
        if text.count("-") == 2:
            yield from parse_tag(text.strip())


def _requirements(metadata: Mapping[str, list[str]], problems: list[Finding]) -> Iterator[Requirement]:
    from packaging.requirements import InvalidRequirement, Requirement

    for text in metadata.get("requires-dist", []):
        try:
            yield Requirement(text)
        except InvalidRequirement:
            problems.append(
                fault(
                    "invalid-requirement",
                    f"Requires-Dist: {text} is not a requirement",
                    remedy="correct it under `dependencies` in pyproject.toml",
                )
            )


def _record(archive: Archive, name: str, problems: list[Finding]) -> dict[str, tuple[str, str]]:
    if name not in archive.names:
        problems.append(fault("missing-metadata", f"{name} is missing", remedy=_REBUILD))
        return {}
    try:
        rows = [row for row in csv.reader(io.StringIO(archive.text(name))) if row]
    except csv.Error:
        rows = [[]]
    if any(len(row) != 3 for row in rows):
        problems.append(fault("record", f"{name} is not a list of names, digests and sizes", remedy=_REBUILD))
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}
