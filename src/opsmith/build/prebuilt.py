"""Finds a finished library next to a module, left by `pip install` or CMake, and checks that it still fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from opsmith.spec.definition import Definition, Device, Kernel
from opsmith.spec.interface import interface_digest
from opsmith.store import Manifest, digest, digest_file

__all__ = ["INTERFACE", "Prebuilt", "file_input", "find_prebuilt", "flag_inputs", "library_name", "manifest_path"]

# The name under which a manifest records the interface digest of the definitions.
INTERFACE = "interface"

# A flag with a path of one machine, be it right after the flag's name (-I/opt/include).
_PLACE = re.compile(r"(?:^|[\s=,:\"'])/|^-{1,2}\w+/")


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


def flag_inputs(definitions: Iterable[Definition], devices: Iterable[str], root: Path) -> dict[str, str]:
    """Return the digests of the flags of every kernel for some devices, as a manifest records them."""
    kernels = _kernels(definitions, devices)
    return {_flag_input(definition, device): _flags_digest(kernel, root) for definition, device, kernel in kernels}


def _flag_input(definition: Definition, device: Device) -> str:
    return f"flags {definition.qualified_name} {device}"


def _flags_digest(kernel: Kernel, root: Path) -> str:
    """Return the digest of a kernel's flags without paths outside of its project: a wheel is installed elsewhere."""
    words = list(kernel.flags)
    for folder in sorted({str(root), str(root.resolve())}, key=len, reverse=True):
        words = [word.replace(folder, "<root>") for word in words]
    return digest(*(word for word in words if not _PLACE.search(word)))


def _kernels(definitions: Iterable[Definition], devices: Iterable[str]) -> Iterator[tuple[Definition, Device, Kernel]]:
    chosen = frozenset(devices)
    for definition in definitions:
        for device, kernel in definition.kernels.items():
            if device in chosen:
                yield definition, device, kernel


def find_prebuilt(module_file: Path, definitions: Iterable[Definition]) -> Prebuilt | None:
    """Return the library next to a module, or None if there is none.

    It fits where its interface is that of the definitions, and every source that is still there is one that it was built
    from, unchanged and with these flags. A wheel need not carry its sources.
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
    for name, built_from in manifest.inputs.items():
        kind, _, relative = name.partition(" ")
        file = root / relative
        if kind == "file" and file.is_file() and digest_file(file) != built_from:
            return f"{relative} has changed since it was built"
    for definition, device, kernel in _kernels(definitions, manifest.devices):
        if (change := _kernel_change(definition, device, kernel, manifest, root)) is not None:
            return change
    if library.stat().st_size != manifest.size_bytes:
        return f"it has {library.stat().st_size} bytes, its description says {manifest.size_bytes}"
    return None


def _kernel_change(
    definition: Definition, device: Device, kernel: Kernel, manifest: Manifest, root: Path
) -> str | None:
    """Return how a kernel is another than what the manifest says was built, as far as its sources are there."""
    there = [source for source in kernel.sources if source.is_file()]
    for source in there:
        if file_input(source, root) not in manifest.inputs:
            return f"it was built without {source.name}, which {definition.name} names for {device} now"
    built_with = manifest.inputs.get(_flag_input(definition, device))
    if there and built_with not in (None, _flags_digest(kernel, root)):
        return f"{definition.name} has other flags for {device} than it was built with"
    return None
