"""Finds the artefact of a module's operators by the notes of an earlier process (`notes`, for definitions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from opsmith.build.notes import find_noted, write_note
from opsmith.spec.definition import Definition, Device
from opsmith.spec.interface import interface_digest
from opsmith.store import Artifact, Store

__all__ = ["find_by_shortcut", "note_shortcut"]


def find_by_shortcut(
    store: Store, module: str, definitions: Sequence[Definition], devices: Sequence[Device]
) -> Artifact | None:
    """Return the artefact that a plan would find, or None if a plan must be made. Raises StoreError as `find_noted`."""
    request = _request(module, definitions, devices)
    return find_noted(store, request, _sources(definitions, devices), with_gpu="cuda" in devices)


def note_shortcut(
    store: Store,
    module: str,
    definitions: Sequence[Definition],
    devices: Sequence[Device],
    artifact: Artifact,
    roots: Mapping[str, Path],
) -> None:
    """Record what a plan has just found. A store that cannot be written goes without shortcuts; that is not an error."""
    request = _request(module, definitions, devices)
    write_note(store, request, _sources(definitions, devices), artifact, roots, with_gpu="cuda" in devices)


def _request(module: str, definitions: Sequence[Definition], devices: Sequence[Device]) -> list[str]:
    kernels = [f"{item.name} {device} {kernel!r}" for item in definitions for device, kernel in item.kernels.items()]
    # A kernel's structs are not part of the interface: the binding knows only their fields.
    structs = [f"{item.name} {struct!r}" for item in definitions for struct in item.signature.structs]
    interface = interface_digest(definitions)
    styles = {kernel.style for item in definitions for kernel in item.kernels.values()}
    # The compilers of kernels that are compiled ahead; others do not need them.
    if "triton" in styles:
        from opsmith.toolchain.triton import triton_version

        kernels.append(f"Triton {triton_version()}")
    if "cute" in styles:
        from opsmith.toolchain.cute import cute_identity

        kernels.append(str(cute_identity()))
    if "nvrtc" in styles:
        from opsmith.toolchain.nvrtc import nvrtc_note

        kernels.append(f"NVRTC {nvrtc_note(torch.version.cuda)}")
    return ["operators", module, str(definitions[0].file), interface, *sorted(kernels), *sorted(structs), *devices]


def _sources(definitions: Sequence[Definition], devices: Sequence[Device]) -> set[Path]:
    """Return the files of the kernels for these devices: those for others decide nothing, and may not be there."""
    kernels = [item.kernels[device] for item in definitions for device in devices if device in item.kernels]
    return {source for kernel in kernels for source in kernel.sources}
