"""Finds the ROCm toolkit that compiles kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsmith.errors import MissingToolkitError, ToolchainError
from opsmith.toolchain.host import clang_files
from opsmith.toolchain.probe import ProbeCache, default_probes
from opsmith.toolchain.search import chosen_toolkit, executables, is_executable

__all__ = ["RocmCompiler", "find_rocm_compiler"]

_INSTALL = (
    "Install ROCm (https://rocm.docs.amd.com), on Debian and Ubuntu also with `apt-get install hipcc`, or set "
    "ROCM_PATH to the folder that has bin/hipcc."
)

_VERSION = re.compile(r"^HIP version: (\S+)", re.MULTILINE)
_CLANG = re.compile(r"^.*\bclang version .*$", re.MULTILINE)
_TARGET = re.compile(r"^Target: (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class RocmCompiler:
    """A hipcc with what belongs to it."""

    hipcc: Path
    root: Path
    version: str  # of HIP
    release: str  # the words of the clang behind it
    target: str
    include: Path

    @property
    def identity(self) -> str:
        """What must be equal for two of them to make the same binary; no path is in it."""
        return f"hipcc {self.version} ({self.release}) {self.target}"


def find_rocm_compiler(*, probes: ProbeCache | None = None) -> RocmCompiler:
    """Return the hipcc of ROCM_PATH or ROCM_HOME, else of PATH or /opt/rocm.

    Raises ToolchainError if there is none, it cannot start, or HIP's headers are missing.
    """
    probes = probes or default_probes()
    hipcc = _first_hipcc().resolve()
    root = hipcc.parent.parent
    answer = probes.ask(hipcc, "--version", depends_on=clang_files)
    version, clang, target = _VERSION.search(answer), _CLANG.search(answer), _TARGET.search(answer)
    if version is None:
        raise ToolchainError(f"{hipcc} does not report its version. It answers --version with:\n{answer.strip()}")
    return RocmCompiler(
        hipcc=hipcc,
        root=root,
        version=version[1],
        release=clang[0].strip() if clang else "",
        target=target[1] if target else "",
        include=_find_include(root),
    )


def _first_hipcc() -> Path:
    for variable in ("ROCM_PATH", "ROCM_HOME"):
        if chosen := chosen_toolkit(variable):
            hipcc = chosen / "bin" / "hipcc"
            if is_executable(hipcc):
                return hipcc
            raise MissingToolkitError(f"{variable} is {chosen}, but {hipcc} is not a program. {_INSTALL}")
    for hipcc in _usual_places():
        if is_executable(hipcc):
            return hipcc
    raise MissingToolkitError(
        f"No ROCm compiler was found: ROCM_PATH is not set, and hipcc is neither on PATH nor in /opt/rocm. {_INSTALL}"
    )


def _usual_places() -> Iterator[Path]:
    yield from executables("hipcc")
    yield Path("/opt/rocm/bin/hipcc")


def _find_include(root: Path) -> Path:
    # ROCm before 6 kept HIP in a folder of its own, from which bin/hipcc was linked.
    for include in (root / "include", root / "hip" / "include"):
        if (include / "hip" / "hip_runtime.h").is_file():
            return include
    raise ToolchainError(
        f"The ROCm toolkit {root} has hipcc but not hip/hip_runtime.h. Install HIP's headers, on Debian and Ubuntu "
        "with `apt-get install libamdhip64-dev`."
    )
