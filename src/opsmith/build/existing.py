"""Makes an extension and a plan from existing sources (pybind11, TORCH_LIBRARY, anything over torch's C++ API)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from opsmith import _env
from opsmith._override import overridden
from opsmith.build.plan import TORCH_TARGET, Target
from opsmith.build.plan_existing import names_cuda_archs, plan_existing
from opsmith.build.sycl import find_sycl_compiler
from opsmith.build.target import Prepared, choose_target, choose_toolchain
from opsmith.errors import ArgumentError, MissingSourceError
from opsmith.spec.extension import ExistingSources, Language, Source
from opsmith.toolchain import find_python_headers, find_torch
from opsmith.toolchain.search import resolve_program

__all__ = ["assemble_sources", "check_name", "file_sources", "language_of", "prepare_existing"]

_LANGUAGES: dict[str, Language] = {
    ".c": "cxx",
    ".cc": "cxx",
    ".cpp": "cxx",
    ".cxx": "cxx",
    ".c++": "cxx",
    ".s": "cxx",
    ".cu": "gpu",
    ".cuh": "gpu",
    ".hip": "gpu",
    ".sycl": "sycl",
}


def check_name(name: str) -> str:
    """Return the name that TORCH_EXTENSION_NAME stands for, the last part of a dotted one; raises ArgumentError."""
    last = name.rpartition(".")[2]
    if not re.fullmatch(r"[A-Za-z_]\w*", last, re.ASCII):
        raise ArgumentError(f"name is {name!r}; it must be a Python identifier, because C++ makes PyInit_{last} of it")
    return last


def language_of(file: Path) -> Language:
    """Return what compiles a source file; raises ArgumentError if nothing does."""
    language = _LANGUAGES.get(file.suffix.lower())
    if language is None:
        raise ArgumentError(f"{file} is not a known kind of source file; its name must end in {', '.join(_LANGUAGES)}")
    return language


def file_sources(files: Iterable[Path], flags: Iterable[str] = ()) -> tuple[Source, ...]:
    """Return a source for each file, named so that a/s.cpp, b/s.cpp and s.cu do not meet.

    Raises MissingSourceError for a file that does not exist, and ArgumentError for one of an unknown kind.
    """
    absolute = tuple(dict.fromkeys(Path(file).absolute() for file in files))
    for file in absolute:
        if not file.is_file():
            raise MissingSourceError(f"no source file {file}")
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
    **more: Any,
) -> ExistingSources:
    """Return the extension of existing sources; `library` is what its file is called.

    `more` are further fields of ExistingSources. Raises ArgumentError.
    """
    if not sources:
        raise ArgumentError(f"{name} has no sources")
    languages = {source.language for source in sources}
    if {"gpu", "sycl"} <= languages:
        raise ArgumentError(f"{name} has CUDA and SYCL sources, but no torch supports both: build two extensions")
    return ExistingSources(
        check_name(name),
        _root(sources),
        tuple(sources),
        ("cpu", "cuda") if "gpu" in languages else ("cpu",),
        library=library,
        include_dirs=tuple(Path(folder).absolute() for folder in include_dirs),
        cxx_flags=tuple(cxx_flags),
        gpu_flags=tuple(gpu_flags),
        link_flags=tuple(link_flags),
        **more,
    )


def prepare_existing(
    extension: ExistingSources, *, with_gpu: bool | None = None, archs: str | None = None, check_cuda: bool = True
) -> Prepared:
    """Return the plan of an extension of existing sources.

    `with_gpu` finds the GPU toolkit for C++ files that call it, where no source is a kernel; by default the sources
    decide. `check_cuda` refuses an nvcc of another CUDA major version than torch's. Raises ToolchainError if a
    compiler, the headers of Python, or torch is missing or unfit.
    """
    gpu = extension.needs_gpu_compiler if with_gpu is None else with_gpu
    if extension.needs_gpu_compiler and not gpu:
        kernels = ", ".join(source.name for source in extension.sources if source.language == "gpu")
        raise ArgumentError(
            f"{extension.name} is to be built without CUDA, but {kernels} cannot be compiled without it"
        )
    if gpu and find_torch().hip is not None:
        from opsmith.build.hipify import hipify

        extension = hipify(extension)
    if gpu and "cuda" not in extension.devices:
        extension = replace(extension, devices=("cpu", "cuda"))
    needs_sycl = extension.with_sycl or any(source.language == "sycl" for source in extension.sources)
    sycl = find_sycl_compiler() if needs_sycl else None
    with _host_of_nvcc(gpu):
        toolchain = choose_toolchain(gpu=gpu, check_cuda=check_cuda)
    own_archs = gpu and names_cuda_archs(extension.gpu_flags)
    target = Target() if own_archs else choose_target(toolchain, archs, TORCH_TARGET)
    plan = plan_existing(
        replace(extension, include_dirs=(*extension.include_dirs, *(_environment_includes() if gpu else ()))),
        toolchain,
        target,
        python=find_python_headers(),
        sycl=sycl,
        nvcc=shlex.split(_env.read("PYTORCH_NVCC") or "") if gpu else (),
    )
    return Prepared(plan, toolchain, target)


@contextmanager
def _host_of_nvcc(gpu: bool) -> Iterator[None]:
    """Let CC name the host compiler of nvcc, as it does for torch.utils.cpp_extension, where NVCC_CCBIN does not."""
    chosen = _env.read("CC")
    if not gpu or not chosen or resolve_program(chosen) is None:
        yield
        return
    # Whether it is set cannot be asked first: another thread's block may have set it, for as long as that lasts.
    with overridden("NVCC_CCBIN", chosen, unless_set=True):
        yield


def _environment_includes() -> list[Path]:
    folders = [Path(text) for text in (_env.read("CUDA_INC_PATH"),) if text]
    cudnn = _env.read("CUDNN_HOME") or _env.read("CUDNN_PATH")
    folders += [Path(cudnn) / "include"] if cudnn else []
    return [folder for folder in folders if folder.is_dir() and folder != Path("/usr/include")]


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
