"""Plans the commands that build an extension: a pure function of the extension and the toolchain.

Every driver (ninja for JIT, setuptools, CMake) runs these commands, letter for letter, in a build folder; so the three
can only ever produce the same library. Paths inside the build folder are relative.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from opsmith.build.ahead.step import ahead_command
from opsmith.spec.extension import Api, Extension, Source

if TYPE_CHECKING:
    from opsmith.toolchain import CudaArch, CudaCompiler, RocmArch, Toolchain

__all__ = ["INCLUDE_DIR", "TORCH_TARGET", "Plan", "Step", "Target", "plan_extension"]

INCLUDE_DIR = Path(__file__).resolve().parent.parent / "include"

# The oldest torch that a stable binary should load in; the headers then offer nothing newer.
TORCH_TARGET = (2, 10)

# Kernels may reorder nothing and assume no NaN away (no -ffast-math). These two only say that no code reads errno or the
# floating-point exception flags, without which GCC vectorises no loop with a comparison or a square root.
_HOST_MATH = ("-fno-math-errno", "-fno-trapping-math")
_HOST_FLAGS = ("-std=c++20", "-fPIC", "-DNDEBUG")

# A generated binding says what it exports.
_VISIBILITY = ("-fvisibility=hidden",)


@dataclass(frozen=True)
class Target:
    """What the binary is built for, beyond the toolchain."""

    cuda_archs: tuple[CudaArch, ...] = ()
    rocm_archs: tuple[RocmArch, ...] = ()
    torch_target: tuple[int, int] = TORCH_TARGET

    @property
    def archs(self) -> tuple[str, ...]:
        """The GPU architectures by name, for manifests and messages."""
        return tuple(str(arch) for arch in (*self.cuda_archs, *self.rocm_archs))


@dataclass(frozen=True)
class Step:
    """One command: what it makes from what. `users` are the user's files that an error of it may be about."""

    description: str
    argv: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    depfile: str | None = None
    users: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The files to write into the build folder, the commands to run in it, and the library that comes out."""

    extension: Extension
    files: Mapping[str, str]
    steps: tuple[Step, ...]
    library: str
    roots: Mapping[str, Path]  # folders that may lie elsewhere on another machine, for keys that should not
    python_abi: str | None = None  # what the binary depends on where it uses Python's C API


def plan_extension(extension: Extension, toolchain: Toolchain, target: Target) -> Plan:
    """Return the plan of generated sources and kernels; `plan_existing` has that of sources of the full API."""
    compiles = [_compile(source, extension, toolchain, target) for source in extension.sources]
    return Plan(
        extension,
        {source.name: source.text for source in extension.sources if source.text is not None},
        (*compiles, _link(extension, toolchain, [step.output for step in compiles])),
        extension.library,
        {"opsmith": INCLUDE_DIR, "project": extension.root, "torch": toolchain.torch.root},
    )


def _compile(source: Source, extension: Extension, toolchain: Toolchain, target: Target) -> Step:
    name = source.name if source.text is not None else str(source.path)
    output = f"{source.name}.o"
    depfile = f"{source.name}.d"
    shown = ", ".join(file.name for file in source.users) or source.name
    if source.language in ("triton", "nvrtc", "cute"):
        host = (*_host_command(extension, toolchain), "-O1", *_defines("none", target), f"-I{INCLUDE_DIR}")
        argv = ahead_command(source, extension, toolchain, target.cuda_archs, target.rocm_archs, host)
        return Step(shown, argv, (name,), output, depfile, source.users)
    includes = [f"-I{folder}" for folder in (*extension.include_dirs, INCLUDE_DIR)]
    for folder in toolchain.torch.include_dirs if source.api == "stable" else ():
        includes += ["-isystem", str(folder)]
    if source.language == "gpu" and toolchain.cuda is not None:
        # nvcc knows its own toolkit's.
        includes += [word for folder in toolchain.cuda.wheel_includes for word in ("-isystem", str(folder))]
    defines = _defines(source.api, target)
    if source.language == "cxx":
        head = _host_command(extension, toolchain)
        flags = [*extension.cxx_flags, *source.flags]
    else:
        head = _gpu_command(extension, toolchain, target, source.api)
        flags = [*_nvcc_name(source, toolchain), *extension.gpu_flags, *source.flags]
    command = [*head, *defines, *includes, *flags, "-MD", "-MF", depfile, "-c", name, "-o", output]
    return Step(shown, tuple(command), (name,), output, depfile, source.users)


def _defines(api: Api, target: Target) -> tuple[str, ...]:
    # Launchers of kernels that were compiled ahead are the same text for both kinds of GPUs.
    defines = ("-DOPSMITH_HIP",) if target.rocm_archs else ()
    if api == "stable":
        major, minor = target.torch_target
        return (*defines, f"-DTORCH_TARGET_VERSION=0x{major:02x}{minor:02x}000000000000")
    return defines


def _host_command(extension: Extension, toolchain: Toolchain) -> tuple[str, ...]:
    return (
        *toolchain.host.command,
        "-O3",
        *_HOST_FLAGS,
        *_VISIBILITY,
        *_HOST_MATH,
        *_prefix_maps(extension, toolchain),
    )


def _prefix_maps(extension: Extension, toolchain: Toolchain) -> tuple[str, ...]:
    """Return flags without which this machine's absolute paths would end up in the binary, and in the cache of others."""
    return (f"-ffile-prefix-map={extension.root}=.", _torch_prefix_map(toolchain))


def _torch_prefix_map(toolchain: Toolchain) -> str:
    # In the headers of torch only messages have their file: debuggers still find it.
    return f"-fmacro-prefix-map={toolchain.torch.root}=torch"


def _gpu_command(extension: Extension, toolchain: Toolchain, target: Target, api: Api) -> tuple[str, ...]:
    if toolchain.cuda is not None:
        return _nvcc_command(toolchain.cuda, target, _torch_prefix_map(toolchain))
    assert toolchain.rocm is not None, "find_toolchain raises where a GPU compiler is asked for and missing"
    archs = [flag for arch in target.rocm_archs for flag in arch.flags]
    prefixes = _prefix_maps(extension, toolchain)
    standard = "-std=c++17" if api == "none" else "-std=c++20"
    flags = (standard, *_HOST_FLAGS[1:], *_VISIBILITY)
    return (str(toolchain.rocm.hipcc), "-x", "hip", "-O3", *flags, *prefixes, *archs)


def _nvcc_command(cuda: CudaCompiler, target: Target, prefix: str) -> tuple[str, ...]:
    # nvcc takes a comma for the end of a flag.
    plain = () if "," in prefix else (prefix,)
    host = ",".join((_HOST_FLAGS[1], *_VISIBILITY, *_HOST_MATH, *plain))
    gencode = [flag for arch in target.cuda_archs for flag in arch.gencode]
    # No -O: nvcc optimises device code anyway, and for the host code of a view kernel's .cu, which only launches, -O3
    # triples the time.
    # -objtemp: the names of temporary files, which have the process's number otherwise, end up in the object.
    head = (str(cuda.nvcc), _HOST_FLAGS[0], "-DNDEBUG", "-objtemp")
    return (*head, f"-Xcompiler={host}", "-ccbin", str(cuda.host.path), *gencode)


def _nvcc_name(source: Source, toolchain: Toolchain) -> tuple[str, ...]:
    """Return the flags that make nvcc name what is in anonymous namespaces alike in every folder and process.

    The names have a digest of the source's absolute path, as nvcc hands it to the compilers behind it, and before CUDA 13
    the number of the process (include/opsmith/unit.h).
    """
    if toolchain.cuda is None:
        return ()
    # nvcc hands a space to a shell as it is.
    path = f"-Xcudafe=--orig_src_path_name={quote(source.name)}"
    if int(toolchain.cuda.version.split(".")[0]) >= 13:
        return (path,)
    unit = re.sub(r"\W", lambda found: f"_{ord(found[0]):x}_", source.name)
    return (path, f"-DOPSMITH_UNIT=opsmith_unit_{unit}", "-include", "opsmith/unit.h")


def _link(extension: Extension, toolchain: Toolchain, objects: list[str]) -> Step:
    torch = toolchain.torch.lib_dir
    libraries = [f"-L{torch}", "-ltorch_cpu", "-lc10"]
    # An undefined symbol is an error here, where the file that lacks it can be named, and not when the library is loaded.
    # The static CUDA runtime is private: other libraries in the process should not find its symbols in this library.
    guards = ("-Wl,--no-undefined", "-Wl,--exclude-libs,ALL")
    if extension.needs_gpu_compiler:
        libraries += _gpu_libraries(toolchain)
    argv = [*toolchain.host.command, "-shared", "-fPIC", *objects, *guards, *libraries, *extension.link_flags, "-ldl"]
    return Step("link", (*argv, "-o", extension.library), tuple(objects), extension.library)


def _gpu_libraries(toolchain: Toolchain) -> list[str]:
    if toolchain.cuda is not None:
        return [str(toolchain.cuda.required_cudart), "-lrt", "-lpthread"]
    assert toolchain.rocm is not None
    return [f"-L{toolchain.rocm.root / 'lib'}", "-lamdhip64"]
