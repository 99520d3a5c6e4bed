"""How existing sources (pybind11, TORCH_LIBRARY, anything over torch's C++ API) become an extension and a plan."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from opsmith.build.plan import TORCH_TARGET, plan_extension
from opsmith.build.target import Prepared, choose_target, choose_toolchain
from opsmith.errors import ArgumentError, ToolchainError
from opsmith.spec.extension import Extension, Language, Source
from opsmith.toolchain import find_python_headers, find_torch

__all__ = ["assemble_sources", "check_name", "file_sources", "language_of", "prepare_existing"]

_LANGUAGES: dict[str, Language] = {
    ".c": "cxx",
    ".cc": "cxx",
    ".cpp": "cxx",
    ".cxx": "cxx",
    ".c++": "cxx",
    ".cu": "gpu",
    ".hip": "gpu",
}


def check_name(name: str) -> str:
    """Return the name that TORCH_EXTENSION_NAME stands for, the last part of a dotted one; raises ArgumentError."""
    last = name.rpartition(".")[2]
    if not re.fullmatch(r"[A-Za-z_]\w*", last, re.ASCII):
        raise ArgumentError(f"name is {name!r}; it must be a Python identifier, because C++ makes PyInit_{last} of it")
    return last


def language_of(file: Path) -> Language:
    """Return who compiles a source file; raises ArgumentError where nobody does."""
    language = _LANGUAGES.get(file.suffix.lower())
    if language is None:
        raise ArgumentError(f"{file} is no source file that opsmith knows: it should end in {', '.join(_LANGUAGES)}")
    return language


def file_sources(files: Iterable[Path], flags: Iterable[str] = ()) -> tuple[Source, ...]:
    """Return a source for each file, named so that a/s.cpp, b/s.cpp and s.cu do not meet.

    Raises ArgumentError where a file is missing or of an unknown kind.
    """
    absolute = tuple(dict.fromkeys(Path(file).absolute() for file in files))
    for file in absolute:
        if not file.is_file():
            raise ArgumentError(f"there is no source file {file}")
    folder = _common_folder(absolute) if absolute else Path()
    names: dict[str, Path] = {}
    for file in absolute:
        name = os.path.relpath(file, folder).replace(os.sep, "_")
        names[name if name not in names else f"{len(names)}_{name}"] = file
    return tuple(
        Source(name, language_of(file), "full", path=file, users=(file,), flags=tuple(flags))
        for name, file in names.items()
    )


def assemble_sources(
    name: str,
    sources: Sequence[Source],
    *,
    library: str,
    include_dirs: Iterable[str | Path] = (),
    cxx_flags: Iterable[str] = (),
    gpu_flags: Iterable[str] = (),
    link_flags: Iterable[str] = (),
) -> Extension:
    """Return the extension of existing sources; `library` is what its file is called."""
    if not sources:
        raise ArgumentError(f"{name} has no sources")
    devices = ("cpu", "cuda") if any(source.language == "gpu" for source in sources) else ("cpu",)
    return Extension(
        check_name(name),
        _root(sources),
        tuple(sources),
        devices,
        library=library,
        include_dirs=tuple(Path(folder).absolute() for folder in include_dirs),
        cxx_flags=tuple(cxx_flags),
        gpu_flags=tuple(gpu_flags),
        link_flags=tuple(link_flags),
    )


def prepare_existing(extension: Extension, *, with_gpu: bool | None = None, archs: str | None = None) -> Prepared:
    """Return the plan of an extension of existing sources.

    `with_gpu` finds the GPU toolkit for C++ files that call it, where no source is a kernel; by default the sources
    decide. Raises ToolchainError where a compiler, the headers of Python, or torch is missing.
    """
    gpu = extension.needs_gpu_compiler if with_gpu is None else with_gpu
    if extension.needs_gpu_compiler:
        _check_gpu_sources(extension, gpu)
    if gpu and "cuda" not in extension.devices:
        extension = replace(extension, devices=("cpu", "cuda"))
    toolchain = choose_toolchain(gpu=gpu)
    target = choose_target(toolchain, archs, TORCH_TARGET)
    plan = plan_extension(extension, toolchain, target, python=find_python_headers())
    return Prepared(plan, toolchain, target)


def _check_gpu_sources(extension: Extension, gpu: bool) -> None:
    kernels = ", ".join(source.name for source in extension.sources if source.language == "gpu")
    if not gpu:
        raise ArgumentError(f"{extension.name} is to be built without CUDA, but {kernels} can only be compiled with it")
    torch = find_torch()
    cuda_files = [s.name for s in extension.sources if s.language == "gpu" and not s.name.endswith(".hip")]
    if torch.hip is not None and cuda_files:
        raise ToolchainError(
            f"torch {torch.version} is built for ROCm, and opsmith does not translate CUDA sources yet: "
            f"{cuda_files[0]} would have to be a .hip file (hipify-perl makes one)"
        )


def _root(sources: Sequence[Source]) -> Path:
    """Return the folder that the user's paths are relative to.

    It must not hold torch, whose headers are not the user's; then each file that is elsewhere keeps its full path.
    """
    files = [user for source in sources for user in source.users]
    if not files:
        return Path.cwd()
    common = _common_folder(files)
    return files[0].parent if find_torch().root.is_relative_to(common) else common


def _common_folder(files: Sequence[Path]) -> Path:
    return Path(os.path.commonpath([file.parent for file in files]))
