"""Finds a finished library next to a module, left by `pip install` or CMake, and checks that it still fits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from opsmith.spec.definition import Definition
from opsmith.spec.interface import interface_digest
from opsmith.store import Manifest, digest_file

__all__ = ["INTERFACE", "Prebuilt", "file_input", "find_prebuilt", "library_name", "manifest_path"]

# The name under which a manifest records the interface digest of the definitions.
INTERFACE = "interface"


class Prebuilt(NamedTuple):
    """A library next to its module. `misfit` says why it must not be used, or is None if it fits."""

    library: Path
    manifest: Manifest | None
    misfit: str | None


def library_name(module_file: Path) -> str:
    """Return what the library of a module's operators is called; it lies next to the module's file."""
    return "_ops.so" if module_file.name == "__init__.py" else f"_{module_file.stem}_ops.so"


def manifest_path(library: Path) -> Path:
    """Return where the description of a library lies that is not in the store."""
    return library.with_suffix(".json")


def file_input(file: Path, root: Path) -> str:
    """Return the name under which a manifest records the digest of a user's file."""
    return f"file {file.relative_to(root).as_posix()}" if file.is_relative_to(root) else f"file {file.name}"


def find_prebuilt(module_file: Path, definitions: Iterable[Definition]) -> Prebuilt | None:
    """Return the library next to a module, or None if there is none.

    It fits where its interface is that of the definitions and every source that is still there is unchanged. A wheel
    need not carry its sources.
    """
    library = module_file.with_name(library_name(module_file))
    if not library.is_file():
        return None
    try:
        manifest = Manifest.from_json(manifest_path(library).read_bytes())
    except OSError:
        manifest = None
    if manifest is None:
        return Prebuilt(library, None, f"its description {manifest_path(library).name} is missing or unreadable")
    return Prebuilt(library, manifest, _misfit(manifest, library, module_file.parent, tuple(definitions)))


def _misfit(manifest: Manifest, library: Path, root: Path, definitions: tuple[Definition, ...]) -> str | None:
    if manifest.inputs.get(INTERFACE) != interface_digest(definitions):
        return "the definitions have changed since it was built"
    for name, digest in manifest.inputs.items():
        kind, _, relative = name.partition(" ")
        file = root / relative
        if kind == "file" and file.is_file() and digest_file(file) != digest:
            return f"{relative} has changed since it was built"
    if library.stat().st_size != manifest.size_bytes:
        return f"it has {library.stat().st_size} bytes, its description says {manifest.size_bytes}"
    return None
