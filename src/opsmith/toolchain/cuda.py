"""Finds the CUDA toolkit that compiles kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opsmith.catalogue.packages import toolkit_command
from opsmith.errors import MissingToolkitError, ToolchainError
from opsmith.toolchain.cuda_parts import find_cuda_parts
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
    wheel_includes: tuple[Path, ...] = ()  # headers of NVIDIA's wheels, for what the toolkit lacks

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Folders that a host compiler needs for the toolkit's headers."""
        own = [folder for folder in (self.include, self.include / "cccl") if folder.is_dir()]
        return tuple(dict.fromkeys((*own, *self.wheel_includes)))

    @property
    def required_cudart(self) -> Path:
        """The runtime library; raises MissingToolkitError where there is none."""
        if self.cudart is None:
            release = ".".join(self.version.split(".")[:2])
            raise MissingToolkitError(
                f"The CUDA toolkit {self.root} has no libcudart. Install the complete toolkit, or the missing part with "
                f"`pip install 'cuda-toolkit[cudart]=={release}.*'`."
            )
        return self.cudart

    @property
    def has_static_cudart(self) -> bool:
        """Whether the runtime is linked into the library, which then loads beside a torch of every CUDA, and of none."""
        return self.cudart is not None and self.cudart.suffix == ".a"

    @property
    def identity(self) -> str:
        """What must be equal for two of them to make the same binary; no path is in it."""
        return f"nvcc V{self.version} ({self.build}) with {self.host.identity}"


def find_cuda_compiler(
    *, fit: str | None = None, release: str | None = None, probes: ProbeCache | None = None
) -> CudaCompiler:
    """Return the nvcc of CUDA_HOME or CUDA_PATH, else of PATH, of conda, /usr/local/cuda, or NVIDIA's PyPI wheels.

    `fit` is the CUDA that torch is built for: where several are found, those of its major version count alone, if there
    is one. `release` ("12", "12.8") is the CUDA that it has to be of, whatever torch is for. The first that is complete
    is taken. Links and scripts before the real nvcc are seen through. Raises ToolchainError if there is none, none of
    that release, it is older than CUDA 12, cannot start, lacks its headers, or accepts no host compiler of this machine.
    """
    probes = probes or default_probes()
    chosen = chosen_nvcc()
    if chosen is not None and release is None:
        return _describe(chosen.path, probes)
    nvccs = [chosen.path] if chosen is not None else [candidate.path for candidate in found_nvccs()]
    if not nvccs:
        raise MissingToolkitError(
            "No CUDA compiler was found: CUDA_HOME is not set, and nvcc is neither on PATH nor in a conda environment, "
            f"/usr/local/cuda or this Python's site-packages. {INSTALL_CUDA}"
        )
    if release is not None:
        nvccs = _of_release(nvccs, release, probes)
    elif fit is not None and len(nvccs) > 1:
        major = fit.split(".")[0]
        nvccs = [nvcc for nvcc in nvccs if (_version(nvcc, probes) or "").split(".")[0] == major] or nvccs
    errors = []
    for nvcc in nvccs:
        try:
            return _describe(nvcc, probes)
        except ToolchainError as error:
            errors.append(error)
    raise errors[0]


def _describe(nvcc: Path, probes: ProbeCache) -> CudaCompiler:
    nvcc = real_nvcc(nvcc, probes)
    version, build = _ask_version(nvcc, probes)
    root = nvcc.parent.parent
    parts = find_cuda_parts(root, version)
    return CudaCompiler(
        nvcc=nvcc,
        root=root,
        version=version,
        build=build,
        include=parts.include,
        host=find_nvcc_host(parts.limits, probes=probes),
        archs=_ask_archs(nvcc, probes),
        cudart=parts.cudart,
        wheel_includes=parts.wheels,
    )


def _of_release(nvccs: list[Path], release: str, probes: ProbeCache) -> list[Path]:
    """Return those of a release; raises ToolchainError, with what there is, if none is."""
    versions = {nvcc: _version(nvcc, probes) for nvcc in nvccs}
    fitting = [nvcc for nvcc in nvccs if f"{versions[nvcc]}.".startswith(f"{release}.")]
    if not fitting:
        found = ", ".join(f"{version or 'unknown'} ({nvcc})" for nvcc, version in versions.items())
        raise ToolchainError(
            f"An nvcc of CUDA {release} is asked for, and there is {found}. Install one with "
            f"`{toolkit_command(release)}`, or set CUDA_HOME to a toolkit of CUDA {release}."
        )
    return fitting


def _version(nvcc: Path, probes: ProbeCache) -> str | None:
    """Return the version of an nvcc, or None if it does not report any."""
    try:
        return _ask_version(real_nvcc(nvcc, probes), probes)[0]
    except ToolchainError:
        return None


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
