"""Lists the sanitizers: how a library is built for each, and what its process is started with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsmith import _env
from opsmith._subprocess import run
from opsmith.errors import ToolchainError
from opsmith.toolchain.host import HostCompiler, find_host_compiler

__all__ = ["GPU_TOOLS", "SANITIZERS", "Sanitizer", "environment_of", "find_compute_sanitizer", "host_environment"]

# Lines of the user's files in the reports, and frames that can be walked.
_DEBUG = ("-g1", "-fno-omit-frame-pointer")


@dataclass(frozen=True)
class Sanitizer:
    """One sanitizer of the host compiler.

    `runtime` are the libraries to load before everything else, by kind of compiler; `options` go into the variable
    that the runtime reads. `helper` is a source of opsmith's that is compiled and loaded after the runtime.
    """

    name: str
    finds: str
    flags: tuple[str, ...]
    runtime: Mapping[str, tuple[str, ...]]
    variable: str
    helper: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def setting(self) -> str:
        """The options as the runtime reads them."""
        return ":".join(f"{name}={value}" for name, value in self.options.items())


SANITIZERS: dict[str, Sanitizer] = {
    item.name: item
    for item in (
        Sanitizer(
            "address",
            "reads and writes outside allocations",
            ("-fsanitize=address", *_DEBUG),
            # libstdc++ too: the runtime looks for its exceptions when the process starts.
            {"gcc": ("libasan.so", "libstdc++.so.6"), "clang": ("libclang_rt.asan-{arch}.so", "libstdc++.so.6")},
            "ASAN_OPTIONS",
            None,
            # Python itself never frees everything. The gap is where CUDA has its addresses.
            {"detect_leaks": "0", "protect_shadow_gap": "0", "allocator_may_return_null": "1", "color": "never"},
        ),
        Sanitizer(
            "undefined",
            "overflows of signed integers, bad shifts, misaligned and null pointers and similar errors",
            # No vptr: it asks for type information that libraries do not share.
            ("-fsanitize=undefined", "-fno-sanitize=vptr", *_DEBUG),
            {"gcc": ("libubsan.so",), "clang": ("libclang_rt.ubsan_standalone-{arch}.so",)},
            "UBSAN_OPTIONS",
            None,
            {"print_stacktrace": "0", "halt_on_error": "0", "color": "never"},
        ),
        Sanitizer(
            "thread",
            "threads that access the same memory without synchronization",
            ("-fsanitize=thread", *_DEBUG),
            {"gcc": ("libtsan.so",), "clang": ("libclang_rt.tsan-{arch}.so",)},
            "TSAN_OPTIONS",
            "openmp_threads.cpp",
            # What PyTorch and Python do is not compiled for it, and only looks like races.
            {"ignore_noninstrumented_modules": "1", "halt_on_error": "0", "exitcode": "0", "color": "never"},
        ),
    )
}

# Tools of compute-sanitizer, by what they find.
GPU_TOOLS: dict[str, str] = {
    "memcheck": "reads and writes outside GPU allocations",
    "racecheck": "races between a block's threads in shared memory",
    "initcheck": "reads of GPU memory that was never written",
    "synccheck": "barriers that not all threads reach",
}


def environment_of(kind: str, folder: Path) -> dict[str, str]:
    """Return what to set for a process that builds and runs an operator under a sanitizer; `folder` is for its helper.

    Raises ToolchainError if the compiler has no such runtime.
    """
    if kind in GPU_TOOLS:
        # racecheck does not follow a lane that arrives at a barrier for its warp, so kernels can be told that it runs.
        flags = (_env.read("NVCC_APPEND_FLAGS"), "-lineinfo", "-DOPSMITH_RACECHECK" if kind == "racecheck" else "")
        return {
            "NVCC_APPEND_FLAGS": " ".join(filter(None, flags)),
            # Each tensor in an allocation of its own, so that its end is where the tool can see it.
            "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
            "OPSMITH_BRIDGE": "off",
        }
    return host_environment(SANITIZERS[kind], find_host_compiler(), folder)


def host_environment(sanitizer: Sanitizer, compiler: HostCompiler, folder: Path) -> dict[str, str]:
    """Return the environment for a sanitizer of a host compiler; raises ToolchainError if it comes without."""
    flags = sanitizer.flags + (("-shared-libsan",) if compiler.kind == "clang" else ())
    arch = compiler.target.split("-")[0]
    libraries = [_library(compiler, name.format(arch=arch), sanitizer) for name in sanitizer.runtime[compiler.kind]]
    if sanitizer.helper is not None:
        libraries.append(str(_compile_helper(sanitizer.helper, compiler, folder)))
    return {
        # The flags are part of the compiler's command, and so of the key in the store.
        "CXX": " ".join((*compiler.command, *flags)),
        "LD_PRELOAD": " ".join(libraries),
        sanitizer.variable: sanitizer.setting,
        "OPSMITH_BRIDGE": "off",
        # The address space of a GPU and that of a sanitizer are in each other's way.
        "CUDA_VISIBLE_DEVICES": "",
    }


def _library(compiler: HostCompiler, name: str, sanitizer: Sanitizer) -> str:
    found = run([compiler.path, f"-print-file-name={name}"]).output.strip()
    if not Path(found).is_absolute():
        raise ToolchainError(
            f"{compiler.path} ({compiler.release}) does not include {name}, which --sanitize {sanitizer.name} needs. "
            "Install it (libasan, libubsan, libtsan or compiler-rt in distributions), or set CXX to a compiler that "
            "has it"
        )
    return str(Path(found).resolve())


def _compile_helper(source: str, compiler: HostCompiler, folder: Path) -> Path:
    library = folder / Path(source).with_suffix(".so")
    argv = [
        *compiler.command,
        "-O1",
        "-fPIC",
        "-shared",
        str(Path(__file__).with_name(source)),
        "-o",
        str(library),
        "-ldl",
    ]
    done = run(argv)
    if done.status != 0:
        raise ToolchainError(f"{compiler.path} cannot compile {source}: {done.output[-1000:]}")
    return library


def find_compute_sanitizer() -> Path:
    """Return NVIDIA's tool: beside nvcc, or on PATH; raises ToolchainError if there is none."""
    from opsmith.toolchain import find_toolchain

    try:
        cuda = find_toolchain(cuda=True, rocm=False).cuda
        roots = [cuda.root] if cuda is not None else []
    except ToolchainError:
        roots = []
    for root in roots:
        for program in (root / "bin" / "compute-sanitizer", root / "compute-sanitizer" / "compute-sanitizer"):
            if program.is_file():
                return program
    on_path = shutil.which("compute-sanitizer")
    if on_path is None:
        raise ToolchainError(
            "compute-sanitizer is neither next to nvcc nor on PATH. It is part of the CUDA toolkit: install the "
            "package cuda-sanitizer (apt, dnf, conda) in the toolkit's version"
        )
    return Path(on_path)
