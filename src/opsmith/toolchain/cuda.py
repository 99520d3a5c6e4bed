"""Finds the CUDA toolkit that compiles kernels."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opsmith.errors import MissingToolkitError, ToolchainError
from opsmith.toolchain.host import HostCompiler, find_host_compiler
from opsmith.toolchain.nvcc_host import find_nvcc_host
from opsmith.toolchain.nvcc_search import INSTALL_CUDA, chosen_nvcc, found_nvccs
from opsmith.toolchain.probe import ProbeCache, default_probes
from opsmith.toolchain.search import is_executable

__all__ = ["CudaCompiler", "find_cuda_compiler", "real_nvcc"]

# torch 2.10, the oldest that opsmith serves, is built with CUDA 12.6 or newer; 12.0 is the first nvcc with C++20.
_MINIMUM_MAJOR = 12

_RELEASE = re.compile(r"release (?P<release>[\d.]+), V(?P<version>[\d.]+)")
_BUILD = re.compile(r"^Build (\S+)", re.MULTILINE)
_HERE = re.compile(r"^#\$ _HERE_=(.+)$", re.MULTILINE)
_ARCH = re.compile(r"^compute_(\d+)(\d)$", re.MULTILINE)

# Where Debian's package has its headers.
_SYSTEM = Path("/usr")

# NVIDIA's name of the machine in <toolkit>/targets.
_TARGETS = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}

# What a toolkit has beside nvcc: the wheel that brings it where the toolkit comes from PyPI, and where it may be.
_PARTS = {
    "nvidia-cuda-runtime": ("{include}/cuda_runtime.h",),
    "nvidia-cuda-crt": ("{include}/crt/host_config.h",),
    "nvidia-cuda-cccl": ("{include}/nv/target", "{include}/cccl/nv/target"),
    "nvidia-nvvm": ("{root}/nvvm/bin/cicc", "{root}/bin/cicc"),
}


@dataclass(frozen=True)
class CudaCompiler:
    """An nvcc with what belongs to it."""

    nvcc: Path
    root: Path
    version: str  # 13.0.88
    build: str  # NVIDIA's number of the build
    include: Path
    host: HostCompiler  # for -ccbin
    archs: tuple[str, ...]  # what it compiles for, such as "9.0", the oldest first
    cudart: Path | None  # the runtime library, static where there is one; None where the toolkit has neither

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Folders that a host compiler needs for the toolkit's headers."""
        return tuple(folder for folder in (self.include, self.include / "cccl") if folder.is_dir())

    @property
    def identity(self) -> str:
        """What must be equal for two of them to make the same binary; no path is in it."""
        return f"nvcc V{self.version} ({self.build}) with {self.host.identity}"


def find_cuda_compiler(*, fit: str | None = None, probes: ProbeCache | None = None) -> CudaCompiler:
    """Return the nvcc of CUDA_HOME or CUDA_PATH, else of PATH, of conda, /usr/local/cuda, or NVIDIA's PyPI wheels.

    `fit` is the CUDA that torch is built for: where several are found, the first of its major version is taken. Links
    and scripts before the real nvcc are seen through. Raises ToolchainError if there is none, it is older than
    CUDA 12, cannot start, lacks its headers, or accepts no host compiler of this machine.
    """
    probes = probes or default_probes()
    nvcc = real_nvcc(_choose_nvcc(fit, probes), probes)
    root = nvcc.parent.parent
    release, build = _ask_version(nvcc, probes)
    include = _find_include(root)
    return CudaCompiler(
        nvcc=nvcc,
        root=root,
        version=release,
        build=build,
        include=include,
        host=find_nvcc_host(include, probes=probes),
        archs=_ask_archs(nvcc, probes),
        cudart=_find_cudart(root),
    )


def _choose_nvcc(fit: str | None, probes: ProbeCache) -> Path:
    """Return the user's nvcc; else the first found that is of the major version of CUDA that is wanted, or the first."""
    if (chosen := chosen_nvcc()) is not None:
        return chosen.path
    candidates = list(found_nvccs())
    if not candidates:
        raise MissingToolkitError(
            "No CUDA compiler was found: CUDA_HOME is not set, and nvcc is neither on PATH nor in a conda environment, "
            f"/usr/local/cuda or this Python's site-packages. {INSTALL_CUDA}"
        )
    if fit is not None and len(candidates) > 1:
        for candidate in candidates:
            with suppress(ToolchainError):  # a broken one is reported only without a working one
                version, _ = _ask_version(real_nvcc(candidate.path, probes), probes)
                if version.split(".")[0] == fit.split(".")[0]:
                    return candidate.path
    return candidates[0].path


def real_nvcc(nvcc: Path, probes: ProbeCache) -> Path:
    """Return the real nvcc behind links and scripts: the one with its profile beside it."""
    real = nvcc.resolve()
    if (real.parent / "nvcc.profile").is_file():
        return real
    # A dry run reads no source, but wants a host compiler; which one does not matter to the answer.
    host = find_host_compiler(probes=probes)
    answer = probes.ask(nvcc, "--dryrun", "-ccbin", str(host.path), "opsmith.cu", depends_on=_named_nvcc)
    for real in _named_nvcc(answer):
        return real
    raise ToolchainError(f"{nvcc} does not report where its toolkit is. Set CUDA_HOME to the folder that has bin/nvcc.")


def _named_nvcc(answer: str) -> tuple[Path, ...]:
    here = _HERE.search(answer)
    nvcc = Path(here[1].strip(), "nvcc").resolve() if here else None
    return (nvcc,) if nvcc and is_executable(nvcc) else ()


def _ask_version(nvcc: Path, probes: ProbeCache) -> tuple[str, str]:
    answer = probes.ask(nvcc, "--version")
    found, build = _RELEASE.search(answer), _BUILD.search(answer)
    if found is None:
        raise ToolchainError(f"{nvcc} does not report its version. It answers --version with:\n{answer.strip()}")
    if int(found["release"].split(".")[0]) < _MINIMUM_MAJOR:
        raise ToolchainError(
            f"{nvcc} is CUDA {found['release']}; opsmith needs {_MINIMUM_MAJOR}.0 or newer. {INSTALL_CUDA}"
        )
    return found["version"], build[1] if build else ""


def _ask_archs(nvcc: Path, probes: ProbeCache) -> tuple[str, ...]:
    numbers = {(int(major), int(minor)) for major, minor in _ARCH.findall(probes.ask(nvcc, "--list-gpu-arch"))}
    return tuple(f"{major}.{minor}" for major, minor in sorted(numbers))


def _target_dirs(root: Path) -> tuple[Path, ...]:
    """Return the folders that may hold include and lib: the toolkit's target, the toolkit, and Debian's /usr."""
    return (root / "targets" / _TARGETS.get(platform.machine(), "none"), root, _SYSTEM)


def _find_include(root: Path) -> Path:
    # Headers of another toolkit must not be mixed in: the first folder that has any is the one.
    candidates = [folder / "include" for folder in _target_dirs(root)]
    include = next((folder for folder in candidates if (folder / "cuda_runtime.h").is_file()), root / "include")
    for wheel, patterns in _PARTS.items():
        files = [Path(pattern.format(include=include, root=root)) for pattern in patterns]
        if not any(file.is_file() for file in files):
            raise ToolchainError(
                f"The CUDA toolkit {root} has nvcc but not {files[0]}. Install the complete toolkit, or the missing "
                f"wheel with `pip install {wheel}`."
            )
    return include


def _find_cudart(root: Path) -> Path | None:
    # The static one first: a library that carries it loads beside any CUDA runtime of its major version, and where there
    # is none. Some wheels have it not, and name the shared one libcudart.so.13 without a plain libcudart.so.
    folders = [folder / lib for folder in _target_dirs(root)[:2] for lib in ("lib", "lib64")]
    patterns = ("libcudart_static.a", "libcudart.so*")
    found = [library for pattern in patterns for directory in folders for library in sorted(directory.glob(pattern))]
    return found[0] if found else None
