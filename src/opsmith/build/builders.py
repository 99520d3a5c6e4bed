"""Builds a group of definitions by JIT, setuptools or CMake, behind one signature."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opsmith.build.artifact import obtain_artifact
from opsmith.build.diagnose import explain_signature
from opsmith.build.export import describe_stored, export_library, write_description
from opsmith.build.plan import TORCH_TARGET
from opsmith.build.prepare import Prepared, prepare
from opsmith.build.watcher import Watcher
from opsmith.errors import BuildError, ToolchainError
from opsmith.spec.definition import Device, Group
from opsmith.store import Store, default_root

__all__ = ["BUILDERS", "Built", "Request", "build_group", "output_folder", "require_builder"]

# Builder -> (module that it needs, what to do where it is missing). CMake says for itself how to get it.
_NEEDS = {
    "setuptools": ("setuptools", 'setuptools is not installed. Install it with `pip install "opsmith[setuptools]"`')
}


@dataclass(frozen=True)
class Request:
    """The request of `opsmith build`; `output` is the folder for the library."""

    devices: tuple[Device, ...]
    output: Path | None = None
    archs: str | None = None
    torch_target: tuple[int, int] = TORCH_TARGET
    jobs: int | None = None


@dataclass(frozen=True)
class Built:
    """Where a library lies, what it was built for, and how."""

    group: Group
    library: Path
    prepared: Prepared
    builder: str


def build_group(group: Group, builder: str, request: Request, watcher: Watcher | None = None) -> Built:
    """Build one group in one of the three ways.

    Raises CompileError, SignatureError, ToolchainError or StoreError.
    """
    prepared = prepare(group, request.devices, archs=request.archs, torch_target=request.torch_target, strict=True)
    try:
        library = BUILDERS[builder](group, prepared, request, watcher or Watcher())
    except BuildError as error:
        raise explain_signature(error, list(group.definitions)) from None
    return Built(group, library, prepared, builder)


def output_folder(output: Path, path_module: str, group: Group) -> Path:
    """Return the folder for a group's library below `output`, where `path_module` is what the user's path stands for.

    It is to `output` as the group's module is to that package. Libraries of several `__init__.py`, which share a name, do
    not meet, and with the package's own folder as `output` each lies where `find_prebuilt` looks for it.
    """
    parts = group.module.removeprefix(path_module).split(".")[1:]
    return output.joinpath(*(parts if group.file.name == "__init__.py" else parts[:-1]))


def require_builder(builder: str) -> None:
    """Raise ToolchainError, with the command that fixes it, if a builder needs a Python package that is not installed."""
    from importlib.util import find_spec

    module, advice = _NEEDS.get(builder, (None, ""))
    if module is not None and find_spec(module) is None:
        raise ToolchainError(advice)


def _jit(group: Group, prepared: Prepared, request: Request, watcher: Watcher) -> Path:
    store = Store(default_root())
    artifact = obtain_artifact(
        prepared.plan, prepared.toolchain, prepared.target, store, jobs=request.jobs, watcher=watcher
    )
    if request.output is None:
        return artifact.library
    manifest = describe_stored(artifact, store, prepared.plan, group.definitions)
    return export_library(artifact.library, request.output, manifest)


def _setuptools(group: Group, prepared: Prepared, request: Request, watcher: Watcher) -> Path:
    from opsmith.build.setuptools import run_build_ext

    return _in_folder(
        group, prepared, request, "setuptools", lambda folder: run_build_ext(prepared, folder, request.jobs, watcher)
    )


def _cmake(group: Group, prepared: Prepared, request: Request, watcher: Watcher) -> Path:
    from opsmith.build.cmake import run_cmake

    return _in_folder(
        group, prepared, request, "cmake", lambda folder: run_cmake(prepared, folder, request.jobs, watcher)
    )


def _in_folder(group: Group, prepared: Prepared, request: Request, builder: str, build: Callable[[Path], Path]) -> Path:
    """Build in a new folder that is removed again, and put the library with its description into the output folder."""
    output = (request.output or Path("build") / "opsmith" / builder / group.module).absolute()
    output.mkdir(parents=True, exist_ok=True)
    # The folder may be the user's, with files under any name.
    with tempfile.TemporaryDirectory(prefix=".opsmith-", dir=output) as scratch:
        library = build(Path(scratch))
        manifest = write_description(
            prepared.plan, prepared.toolchain, prepared.target, library.parent, group.definitions
        )
        return export_library(library, output, manifest)


BUILDERS: dict[str, Callable[[Group, Prepared, Request, Watcher], Path]] = {
    "jit": _jit,
    "setuptools": _setuptools,
    "cmake": _cmake,
}
