"""Finds the library of definitions in the store, or builds it, where no finished one lies beside them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from opsmith.build.prebuilt import Prebuilt
from opsmith.build.shortcut import find_by_shortcut, note_shortcut
from opsmith.errors import BuildError
from opsmith.runtime.obtained import Obtained
from opsmith.spec.definition import Definition, Device, Group
from opsmith.store import Store, default_root

__all__ = ["can_build", "find_or_build"]


def find_or_build(
    module: str, definitions: Sequence[Definition], devices: tuple[Device, ...], prebuilt: Prebuilt | None
) -> Obtained:
    """Return the library of a module's compiled definitions for some devices; warn of a `prebuilt` one that does not fit.

    Raises CompileError, SignatureError, ToolchainError or StoreError.
    """
    if prebuilt is not None and prebuilt.misfit is not None:
        warnings.warn(
            f"{prebuilt.library} is not used: {prebuilt.misfit}. The operators of {module} are rebuilt",
            RuntimeWarning,
            stacklevel=6,
        )
    store = Store(default_root())
    if (artifact := find_by_shortcut(store, module, definitions, devices)) is not None:
        return Obtained(artifact.library, artifact.manifest.devices, inputs=artifact.manifest.inputs)
    return _plan_and_build(module, definitions, devices, store)


def _plan_and_build(
    module: str, definitions: Sequence[Definition], devices: tuple[Device, ...], store: Store
) -> Obtained:
    from opsmith.build.announce import announcer
    from opsmith.build.artifact import obtain_artifact
    from opsmith.build.prepare import prepare
    from opsmith.build.typings import definition_schemas, note_typings

    prepared = prepare(Group(module, definitions[0].file, tuple(definitions)), devices)
    served = prepared.plan.extension.devices
    if not served:
        return Obtained(missing=prepared.missing)
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
    return Obtained(artifact.library, served, prepared.missing, artifact.manifest.inputs)


def can_build(module: str, definitions: Sequence[Definition], devices: tuple[Device, ...]) -> bool:
    """Tell whether this machine has the compilers for some devices."""
    from opsmith.build.prepare import prepare
    from opsmith.errors import OpsmithError

    try:
        prepare(Group(module, definitions[0].file, tuple(definitions)), devices, strict=True)
    except OpsmithError:
        return False
    return True
