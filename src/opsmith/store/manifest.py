"""Defines the manifest of an artefact: what it is and what it was made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from opsmith.store.keys import digest_file, is_key
from opsmith.store.reading import parse_json

__all__ = ["FORMAT_VERSION", "KINDS", "MANIFEST_NAME", "Kind", "Manifest"]

MANIFEST_NAME = "manifest.json"

# Raise it when a field changes its meaning. A manifest of another format counts as none.
FORMAT_VERSION = 1

# What an artefact is for: a library that a process loads, a precompiled header, or one object file of a library.
Kind = Literal["library", "header", "object"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Manifest(NamedTuple):
    """The description that is next to every stored binary.

    `library` is the binary whatever its kind. `files` are the digests of all that is next to it; `Store.publish` fills
    them in.
    """

    name: str
    library: str  # file name of the binary, beside the manifest
    sha256: str
    size_bytes: int
    inputs: Mapping[str, str]  # what the source key was made from: name -> digest
    devices: tuple[str, ...]
    archs: tuple[str, ...]
    toolchain: Mapping[str, str]  # role -> identity of the tool
    torch_version: str | None  # None: the binary depends on no version
    created: str  # ISO 8601, UTC
    opsmith_version: str
    kind: Kind = "library"
    files: Mapping[str, str] = MappingProxyType({})  # path below the artefact's folder -> SHA-256
    format: int = FORMAT_VERSION

    @classmethod
    def describe(
        cls,
        library: Path,
        *,
        name: str,
        inputs: Mapping[str, str],
        devices: tuple[str, ...],
        archs: tuple[str, ...],
        toolchain: Mapping[str, str],
        torch_version: str | None,
        opsmith_version: str,
        kind: Kind = "library",
    ) -> Manifest:
        """Return the manifest of a binary that was built just now. Raises OSError if it cannot be read."""
        return cls(
            name=name,
            library=library.name,
            sha256=digest_file(library),
            size_bytes=library.stat().st_size,
            inputs=dict(inputs),
            devices=devices,
            archs=archs,
            toolchain=dict(toolchain),
            torch_version=torch_version,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            opsmith_version=opsmith_version,
            kind=kind,
        )

    def to_json(self) -> str:
        """Return the manifest as JSON, for people as much as for `from_json`."""
        return json.dumps({**self._asdict(), "files": dict(self.files)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest | None:
        """Return the manifest, or None if the text is damaged or of another format."""
        try:
            fields = parse_json(text)
            if fields["format"] != FORMAT_VERSION:
                return None
            return cls(
                **{name: read(fields[name]) for name, read in _READERS.items() if name not in _LATER or name in fields}
            )
        except (ValueError, KeyError, TypeError):
            return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: Any) -> int:
    # As large as a file can be: what computes with it is not prepared for an integer of 4,000 digits.
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(value)
    return value


def _name(value: Any) -> str:
    # Names are printed: one with a newline or an escape code could say anything in a terminal.
    if not _text(value).isprintable():
        raise ValueError(value)
    return str(value)


def _digest(value: Any) -> str:
    # It becomes part of a path in a shared store.
    if not is_key(_text(value)):
        raise ValueError(value)
    return str(value)


def _file_name(value: Any) -> str:
    # A manifest must not lead the loader out of its own folder.
    if _name(value) in {"", ".", ".."} or PurePath(value).name != value:
        raise ValueError(value)
    return str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(value)
    return tuple(_name(item) for item in value)


def _table(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return {_text(name): _text(item) for name, item in value.items()}


def _kind(value: Any) -> Kind:
    if value not in KINDS:
        raise ValueError(value)
    return value  # type: ignore[no-any-return]


def _files(value: Any) -> dict[str, str]:
    table = _table(value)
    for name, digest in table.items():
        _digest(digest)
        _name(name)
        path = PurePosixPath(name)
        # As for the library: nothing outside its own folder, and no second manifest.
        if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name or name == MANIFEST_NAME:
            raise ValueError(name)
    return table


# Fields that the first manifests did not have.
_LATER = frozenset({"kind", "files"})

_READERS: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "library": _file_name,
    "sha256": _digest,
    "size_bytes": _number,
    "inputs": _table,
    "devices": _texts,
    "archs": _texts,
    "toolchain": _table,
    "torch_version": lambda value: None if value is None else _name(value),
    "created": _name,
    "opsmith_version": _name,
    "kind": _kind,
    "files": _files,
    "format": _number,
}
