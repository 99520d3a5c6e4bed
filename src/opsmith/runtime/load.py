"""Loads definitions into PyTorch: their library from next to the module, from the store or built now, and their rules."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from opsmith.build.devices import wanted_devices
from opsmith.build.prebuilt import Prebuilt, find_prebuilt
from opsmith.build.shortcut import find_by_shortcut, note_shortcut
from opsmith.errors import BuildError, LoadError
from opsmith.runtime.compile_cache import tag_compile_cache
from opsmith.runtime.crash_note import name_crashes
from opsmith.runtime.register import register_kernels, register_rules
from opsmith.runtime.torch_ops import is_defined
from opsmith.spec.definition import Definition, Device, Group
from opsmith.store import Store, default_root

__all__ = ["load_definitions", "load_library"]


def load_definitions(module: str, definitions: Sequence[Definition], *, anew: bool = False) -> None:
    """Load and register definitions of a module, none of which is loaded yet.

    With `anew`, a library next to the module is ignored: it was built with other flags than the ones wanted now. Raises
    CompileError, SignatureError, ToolchainError, StoreError or LoadError.
    """
    compiled = [definition for definition in definitions if definition.kernels]
    missing: dict[Device, str] = {}
    served: tuple[str, ...] = ()
    if compiled and (devices := wanted_devices(compiled)):
        served, missing = _load_compiled(module, compiled, devices, anew=anew)
    for definition in definitions:
        has_library = any(device in served for device in definition.kernels)
        register_kernels(definition, is_defined=has_library, missing=missing)
    for definition in definitions:
        register_rules(definition)
    tag_compile_cache(definitions[0])


def load_library(library: Path, definitions: Sequence[Definition] = ()) -> None:
    """Load a shared library into PyTorch; raises LoadError if that fails or would end the process.

    An operator that exists already is looked for first: PyTorch ends the process that loads another's library with it,
    and its words for one of ours would not say which module to import first.
    """
    if str(library) in torch.ops.loaded_libraries:
        return
    for definition in definitions:
        if definition.kernels and is_defined(definition):
            raise LoadError(
                f"torch.ops already has {definition.qualified_name}, from a library that opsmith did not load. Import "
                f"{definition.module} before that library, or load it through opsmith alone"
            )
    try:
        torch.ops.load_library(str(library))
    except OSError as error:
        from opsmith.runtime.load_failure import explain_load_failure

        # torch's own exception names the file only; the loader's words are in its cause.
        raise LoadError(explain_load_failure(library.name, library, str(error.__cause__ or error))) from error
    loaded = ctypes.CDLL(str(library))
    if refusal := _refusal_of(loaded):
        torch.ops.loaded_libraries.discard(str(library))
        raise LoadError(f"{library} cannot be loaded: {refusal}")
    name_crashes(loaded)


def _refusal_of(library: ctypes.CDLL) -> str:
    """Return why a library that is loaded could not register its operators (include/opsmith/binding.h), or ""."""
    try:
        load_error = library.opsmith_load_error
    except AttributeError:  # not a generated binding
        return ""
    load_error.restype = ctypes.c_char_p
    return str(load_error().decode(errors="replace"))


def _load_compiled(
    module: str, definitions: Sequence[Definition], devices: tuple[Device, ...], *, anew: bool
) -> tuple[tuple[str, ...], dict[Device, str]]:
    """Load the library of some definitions; return the devices that it serves and why others are missing."""
    file = definitions[0].file
    prebuilt = find_prebuilt(file, definitions) if not anew else None
    if prebuilt is not None and prebuilt.manifest is not None and prebuilt.misfit is None:
        absent = [device for device in devices if device not in prebuilt.manifest.devices]
        if not absent or not _can_build(module, definitions, devices):
            load_library(prebuilt.library, definitions)
            reason = f"{prebuilt.library} was built without it, and this machine has no compiler for it"
            return prebuilt.manifest.devices, dict.fromkeys(absent, reason)
    return _build(module, definitions, devices, prebuilt)


def _build(
    module: str, definitions: Sequence[Definition], devices: tuple[Device, ...], prebuilt: Prebuilt | None
) -> tuple[tuple[str, ...], dict[Device, str]]:
    if prebuilt is not None and prebuilt.misfit is not None:
        warnings.warn(
            f"{prebuilt.library} is not used: {prebuilt.misfit}. The operators of {module} are rebuilt",
            RuntimeWarning,
            stacklevel=6,
        )
    store = Store(default_root())
    if (artifact := find_by_shortcut(store, module, definitions, devices)) is not None:
        load_library(artifact.library, definitions)
        return artifact.manifest.devices, {}
    return _plan_and_build(module, definitions, devices, store)


def _plan_and_build(
    module: str, definitions: Sequence[Definition], devices: tuple[Device, ...], store: Store
) -> tuple[tuple[str, ...], dict[Device, str]]:
    from opsmith.build.announce import announcer
    from opsmith.build.artifact import obtain_artifact
    from opsmith.build.prepare import prepare
    from opsmith.build.typings import definition_schemas, note_typings

    prepared = prepare(Group(module, definitions[0].file, tuple(definitions)), devices)
    served = prepared.plan.extension.devices
    if not served:
        return (), dict(prepared.missing)
    names = ", ".join(definition.name for definition in definitions[:3]) + (" ..." if len(definitions) > 3 else "")
    watcher = announcer(f"{module}: {names} for {' and '.join(served)}")
    try:
        artifact = obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, store, watcher=watcher)
    except BuildError as error:
        from opsmith.build.diagnose import explain_signature

        raise explain_signature(error, list(definitions)) from None
    note_typings(definition_schemas(definitions), store)
    if not prepared.missing:
        note_shortcut(store, module, definitions, devices, artifact, prepared.plan.roots)
    load_library(artifact.library, definitions)
    return served, dict(prepared.missing)


def _can_build(module: str, definitions: Sequence[Definition], devices: tuple[Device, ...]) -> bool:
    from opsmith.build.prepare import prepare
    from opsmith.errors import OpsmithError

    try:
        prepare(Group(module, definitions[0].file, tuple(definitions)), devices, strict=True)
    except OpsmithError:
        return False
    return True
