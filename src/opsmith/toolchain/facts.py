"""Gathers what the error catalogue needs to know about this machine, without importing torch."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

from opsmith import _subprocess
from opsmith.catalogue import Facts
from opsmith.errors import ToolchainError

__all__ = ["demangle", "gather_facts"]

_TIMEOUT_S = 10.0


def gather_facts(*, with_cuda: bool = False) -> Facts:
    """Return what is known; what cannot be found stays unknown. `with_cuda` asks nvcc too."""
    from opsmith.toolchain.torch_install import find_torch

    facts: dict[str, str | None] = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    with suppress(ToolchainError):
        torch = find_torch()
        facts |= {"torch": torch.version, "torch_cuda": torch.cuda}
        if torch.cuda:
            facts["cuda_torch"] = torch.version
        elif not torch.hip:
            facts["cpu_torch"] = torch.version
    if with_cuda:
        from opsmith.toolchain.cuda import find_cuda_compiler

        with suppress(ToolchainError):
            facts["nvcc"] = find_cuda_compiler().version
    return Facts(**facts)


def demangle(symbol: str) -> str:
    """Return the C++ name of a linker's symbol, by the program c++filt; the symbol itself where that is not here."""
    if not symbol.startswith("_Z"):
        return symbol
    try:
        answer = _subprocess.run(["c++filt", symbol], timeout_s=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return symbol
    return answer.output.strip() if answer.status == 0 and answer.output.strip() else symbol
