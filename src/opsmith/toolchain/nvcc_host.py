"""Chooses a host compiler that nvcc accepts.

Every toolkit refuses compilers that are newer than it, and says so only after seconds, in a header. That header,
crt/host_config.h, is read here, so a fit compiler is chosen beforehand, and no table of versions can grow old.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opsmith import _env
from opsmith.errors import ToolchainError
from opsmith.toolchain.host import HostCompiler, describe_host_compiler, find_host_compiler
from opsmith.toolchain.oldest import OLDEST_HOST
from opsmith.toolchain.probe import ProbeCache
from opsmith.toolchain.search import resolve_program

__all__ = ["HostLimits", "find_nvcc_host", "read_host_limits"]

_GCC_LIMIT = re.compile(r"gcc versions later than (\d+) are not supported")
_CLANG_LIMIT = re.compile(r"unsupported clang version! clang version must be less than (\d+)")


@dataclass(frozen=True)
class HostLimits:
    """The newest major version of each compiler that a toolkit accepts; None if its header does not say."""

    gcc: int | None = None
    clang: int | None = None

    def accept(self, host: HostCompiler) -> bool:
        """Tell whether a compiler is within the limits."""
        limit = {"gcc": self.gcc, "clang": self.clang}[host.kind]
        return limit is None or int(host.version.split(".")[0]) <= limit


def read_host_limits(include: Path) -> HostLimits:
    """Return the limits that a toolkit's headers state."""
    try:
        text = (include / "crt" / "host_config.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return HostLimits()
    gcc, clang = _GCC_LIMIT.search(text), _CLANG_LIMIT.search(text)
    return HostLimits(int(gcc[1]) if gcc else None, int(clang[1]) - 1 if clang else None)


def find_nvcc_host(include: Path, *, probes: ProbeCache) -> HostCompiler:
    """Return the compiler for `nvcc -ccbin`.

    That is the one of NVCC_CCBIN, whatever its version; else the usual host compiler where nvcc accepts it; else the
    newest g++-N on PATH that nvcc accepts. Raises ToolchainError if there is none.
    """
    if chosen := _env.read("NVCC_CCBIN"):
        # As for nvcc itself, the value may be the folder of the compiler.
        command = str(Path(chosen, "g++")) if Path(chosen).is_dir() else chosen
        return describe_host_compiler(command, variable="NVCC_CCBIN", probes=probes)
    limits = read_host_limits(include)
    usual = find_host_compiler(probes=probes)
    if limits.accept(usual):
        return usual
    for major in range(limits.gcc or OLDEST_HOST["gcc"], OLDEST_HOST["gcc"] - 1, -1):
        if resolve_program(f"g++-{major}"):
            return describe_host_compiler(f"g++-{major}", variable="PATH", probes=probes)
    raise ToolchainError(
        f"nvcc ({include.parent}) accepts gcc up to {limits.gcc} and clang up to {limits.clang}, but {usual.path} is "
        f"{usual.kind} {usual.version}. Install an older one with `apt-get install g++-{limits.gcc}` or "
        f"`conda install -c conda-forge gxx={limits.gcc}`, or set NVCC_CCBIN to one."
    )
