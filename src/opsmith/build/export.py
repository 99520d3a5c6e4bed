"""How a finished library is put somewhere: beside its module, or into a folder, with the description that loads it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from opsmith.build.artifact import describe_build, key_inputs, read_headers
from opsmith.build.plan import Plan, Target
from opsmith.build.prebuilt import INTERFACE, file_input, manifest_path
from opsmith.spec.definition import Definition
from opsmith.spec.interface import interface_digest
from opsmith.store import Manifest, digest_file
from opsmith.toolchain import Toolchain

__all__ = ["export_library", "write_description"]


def export_library(library: Path, folder: Path, manifest: Manifest) -> Path:
    """Copy a library and its description into a folder and return the copy; what lay there is replaced at one stroke."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / library.name
    _replace(target, library.read_bytes(), mode=0o755)
    _replace(manifest_path(target), manifest.to_json().encode(), mode=0o644)
    return target


def write_description(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    folder: Path,
    definitions: Iterable[Definition] = (),
) -> Manifest:
    """Return the description of a library that was just built in a folder, for use outside the store.

    It names the user's files with their digests, so that a library beside edited sources is noticed, and the interface of
    the definitions.
    """
    definitions = tuple(definitions)
    root = plan.extension.root
    inputs = key_inputs(plan, toolchain, target)
    files = {user for step in plan.steps for user in step.users}
    files |= {header for header in read_headers(plan, toolchain, folder) if header.is_relative_to(root)}
    inputs |= {file_input(file, root): digest_file(file) for file in sorted(files)}
    if definitions:
        inputs[INTERFACE] = interface_digest(definitions)
    return describe_build(plan, toolchain, target, folder / plan.library, inputs)


def _replace(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file beside its place and rename it: a process that has the old one loaded keeps it whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
