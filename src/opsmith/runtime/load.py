"""Loads definitions into PyTorch: their library from next to the module, from the store or built now, and their rules."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch

from opsmith._standalone import PROJECT
from opsmith.build.devices import wanted_devices
from opsmith.build.prebuilt import Prebuilt, find_prebuilt
from opsmith.errors import BuildError, LoadError, OpsmithError
from opsmith.runtime.compile_cache import tag_compile_cache
from opsmith.runtime.crash_note import name_crashes
from opsmith.runtime.edits import warn_of_edits, watch
from opsmith.runtime.obtained import Obtained
from opsmith.runtime.register import register_kernels, register_rules
from opsmith.runtime.torch_ops import is_defined
from opsmith.spec.definition import Definition, Device

__all__ = ["Obtained", "load_library", "obtain", "register"]

_WITHOUT_COMPILER = (
    f"the standalone wheel of {PROJECT} builds nothing" if PROJECT else "this machine has no compiler for it"
)


def obtain(module: str, definitions: Sequence[Definition], *, anew: bool = False) -> Obtained:
    """Find or build the library of a module's definitions.

    With `anew`, a library next to the module is ignored: it was built with other flags than the ones wanted now. Raises
    CompileError, SignatureError, ToolchainError, StoreError or LoadError, and BuildError for what the system refuses.
    """
    warn_of_edits()
    try:
        return _obtain(module, definitions, anew=anew)
    except OSError as error:
        if isinstance(error, OpsmithError):
            raise
        from opsmith.catalogue import explain

        advice = "".join(f"\n\n{explanation.text}" for explanation in explain(error.strerror or ""))
        names = ", ".join(definition.name for definition in definitions)
        raise BuildError(f"{module}: {names} can be neither found nor built: {error}{advice}") from error


def _obtain(module: str, definitions: Sequence[Definition], *, anew: bool) -> Obtained:
    compiled = [definition for definition in definitions if definition.kernels]
    if not compiled or not (devices := wanted_devices(compiled)):
        return Obtained()
    file = definitions[0].file
    prebuilt = find_prebuilt(file, compiled) if not anew else None
    if prebuilt is not None and prebuilt.manifest is not None and prebuilt.misfit is None:
        absent = [device for device in devices if device not in prebuilt.manifest.devices]
        if not absent or not _can_build(module, compiled, devices):
            reason = f"{prebuilt.library} was built without it, and {_WITHOUT_COMPILER}"
            missing = dict.fromkeys(absent, reason)
            return Obtained(prebuilt.library, prebuilt.manifest.devices, missing, prebuilt.manifest.inputs)
    if PROJECT:
        raise LoadError(_no_library(module, prebuilt))
    from opsmith.runtime.from_store import find_or_build

    return find_or_build(module, compiled, devices, prebuilt)


def _can_build(module: str, definitions: Sequence[Definition], devices: tuple[Device, ...]) -> bool:
    if PROJECT:
        return False
    from opsmith.runtime.from_store import can_build

    return can_build(module, definitions, devices)


def _no_library(module: str, prebuilt: Prebuilt | None) -> str:
    """Say why a standalone wheel, which cannot build, has no library for a module's operators."""
    what = f"{prebuilt.library} is not used: {prebuilt.misfit}" if prebuilt is not None else "their library is missing"
    return (
        f"the operators of {module} cannot be loaded: {what}. {PROJECT} is a standalone wheel and builds nothing; restore "
        f"its files with `pip install --force-reinstall --no-deps {PROJECT}`"
    )


def register(definitions: Sequence[Definition], obtained: Obtained) -> None:
    """Load the library of definitions into PyTorch and register them, none of which is registered yet.

    Raises LoadError.
    """
    compiled = [definition for definition in definitions if definition.kernels]
    if obtained.library is not None:
        load_library(obtained.library, compiled)
    for definition in definitions:
        has_library = any(device in obtained.devices for device in definition.kernels)
        register_kernels(definition, is_defined=has_library, missing=dict(obtained.missing))
    for definition in definitions:
        register_rules(definition)
    if obtained.library is not None:
        watch(compiled, obtained.inputs)
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
