"""Copies a finished library next to its module or into a folder, with the description that loads it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from opsmith.build.key import key_inputs
from opsmith.build.plan import Plan, Target
from opsmith.build.prebuilt import INTERFACE, file_input, flag_inputs, manifest_path
from opsmith.build.record import describe_build, read_headers
from opsmith.spec.definition import Definition
from opsmith.spec.interface import interface_digest
from opsmith.store import Artifact, Manifest, Store, digest_file
from opsmith.store.archive import find_record
from opsmith.store.headers import ABSENT, resolve_name
from opsmith.toolchain import Toolchain

__all__ = ["describe_stored", "export_library", "replace_file", "write_description"]


def export_library(library: Path, folder: Path, manifest: Manifest) -> Path:
    """Copy a library and its description into a folder and return the copy; what lay there is replaced atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / library.name
    replace_file(target, library.read_bytes(), mode=0o755)
    replace_file(manifest_path(target), manifest.to_json().encode(), mode=0o644)
    return target


def write_description(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    folder: Path,
    definitions: Iterable[Definition] = (),
) -> Manifest:
    """Return the description of a library that was just built in a folder, for use outside the store."""
    headers = read_headers(plan, toolchain, folder)
    inputs = key_inputs(plan, toolchain, target) | _outside(plan, headers, tuple(definitions))
    return describe_build(plan, toolchain, target, folder / plan.library, inputs)


def describe_stored(artifact: Artifact, store: Store, plan: Plan, definitions: Iterable[Definition]) -> Manifest:
    """Return the same of an artefact of the store. Raises StoreError if the store has lost what it was made from."""
    names = [name for name, digest in find_record(store, artifact).headers.items() if digest != ABSENT]
    headers = [path for name in names if (path := resolve_name(name, plan.roots)) is not None]
    inputs = {**artifact.manifest.inputs, **_outside(plan, headers, tuple(definitions))}
    # What else is next to a stored library stays there.
    return artifact.manifest._replace(inputs=inputs, files={})


def _outside(plan: Plan, headers: Iterable[Path], definitions: tuple[Definition, ...]) -> dict[str, str]:
    """Return what a library says of itself outside the store, where no key does.

    It names the user's files with their digests, so that a library beside edited sources is noticed, and the definitions'
    interface and flags.
    """
    root = plan.extension.root
    files = {user for step in plan.steps for user in step.users}
    # Not what `<root>/../common.h` leads to: from where the library is installed that may be anything.
    files |= {file for header in headers if (file := header.resolve()).is_relative_to(root)}
    inputs = {file_input(file, root): digest_file(file) for file in sorted(files)}
    if not definitions:
        return inputs
    return {
        **inputs,
        INTERFACE: interface_digest(definitions),
        **flag_inputs(definitions, plan.extension.devices, root),
    }


def replace_file(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file next to the old one and rename it: a process that has loaded the old one keeps it intact."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
