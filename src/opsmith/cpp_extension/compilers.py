"""Answers torch.utils.cpp_extension's questions about compilers and ninja from opsmith's toolchain."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from opsmith import _env
from opsmith.errors import ToolchainError
from opsmith.toolchain.search import resolve_program

if TYPE_CHECKING:
    from torch.torch_version import TorchVersion

    from opsmith.toolchain import HostCompiler

__all__ = [
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "is_ninja_available",
    "verify_ninja_availability",
]

_log = logging.getLogger("opsmith.cpp_extension")
_YES = frozenset({"ON", "1", "YES", "TRUE", "Y"})
_FROM_SOURCE = re.compile(r"\d+\.\d+\.\d+\w+\+\w+")


def get_cxx_compiler() -> str:
    """Return the C++ compiler's command: CXX, else the first of c++, g++ and clang++ on PATH."""
    names = ("c++", "g++", "clang++")
    return _env.read("CXX") or next((name for name in names if resolve_program(name)), names[0])


def check_compiler_is_gcc(compiler: str) -> bool:
    """Tell whether a command starts GCC."""
    found = _describe(compiler)
    return found is not None and found.kind == "gcc"


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Tell whether a command starts a GCC or clang that opsmith can build with."""
    return _describe(compiler) is not None


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, TorchVersion]:
    """Return whether a compiler's binaries fit torch's, and its version.

    GCC and clang are each held to their own minimum. With TORCH_DONT_CHECK_COMPILER_ABI, or a torch that was built here
    from source, every compiler fits and the version is 0.0.0.
    """
    from torch.torch_version import TorchVersion

    nothing = TorchVersion("0.0.0")
    if _env.read("TORCH_DONT_CHECK_COMPILER_ABI") in _YES or not _is_binary_build():
        return True, nothing
    try:
        found = _ask(compiler)
    except ToolchainError as error:
        _log.warning("%s", error)
        return False, nothing
    parts = [*found.version.split("."), "0", "0"][:3]
    return True, TorchVersion(".".join(parts))


def is_ninja_available() -> bool:
    """Tell whether there is a ninja, as a package of this Python or on PATH."""
    from opsmith.toolchain import find_ninja

    try:
        find_ninja()
    except ToolchainError:
        return False
    return True


def verify_ninja_availability() -> None:
    """Raise ToolchainError, which is a RuntimeError, without ninja. A finished library loads without one."""
    from opsmith.toolchain import find_ninja

    find_ninja()


def _ask(compiler: str) -> HostCompiler:
    from opsmith.toolchain.host import describe_host_compiler
    from opsmith.toolchain.probe import default_probes

    return describe_host_compiler(compiler, variable="the compiler's name", probes=default_probes())


def _describe(compiler: str) -> HostCompiler | None:
    try:
        return _ask(compiler)
    except ToolchainError:
        return None


def _accepted_compilers_for_platform() -> list[str]:
    return ["g++", "gcc", "gnu-c++", "gnu-cc", "clang++", "clang"]


def _is_binary_build() -> bool:
    from opsmith.toolchain import find_torch

    return not _FROM_SOURCE.match(find_torch().version)


def _check_cuda_version(compiler_name: str, compiler_version: Any) -> None:
    """Raise ToolchainError, which is a RuntimeError, if nvcc and torch belong to different major versions of CUDA.

    nvcc's host compiler is chosen to fit nvcc, so the arguments decide nothing. A project that replaces this function
    builds without the check, and so does OPSMITH_SKIP_CUDA_CHECK=1.
    """
    from opsmith.toolchain import find_toolchain

    mismatch = find_toolchain(cuda=True, rocm=False).cuda_mismatch
    if mismatch and _env.read("OPSMITH_SKIP_CUDA_CHECK") is None:
        raise ToolchainError(mismatch)


def _get_num_workers(verbose: bool = False) -> int | None:
    """Return how many compilers may run at once as the environment says, or None if it does not."""
    for name in ("OPSMITH_JOBS", "MAX_JOBS"):
        value = _env.read(name)
        if value is not None and value.isdigit():
            return int(value)
    return None
