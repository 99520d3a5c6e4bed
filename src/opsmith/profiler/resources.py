"""Reads the resources that a kernel was compiled for with cuobjdump, which comes with a CUDA toolkit.

The profiler knows the registers and shared memory of a launch; local memory, where spilled registers go, is only in the
binary.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from opsmith import _subprocess
from opsmith.errors import ToolchainError

__all__ = ["Resources", "find_cuobjdump", "of_kernel", "parse_usage", "resources_of"]

_FUNCTION = re.compile(r"^\s*Function (?P<name>\S+):\s*$")
_USAGE = re.compile(r"REG:(?P<registers>\d+)\s+STACK:(?P<stack>\d+)\s+SHARED:(?P<shared>\d+)\s+LOCAL:(?P<local>\d+)")


@dataclass(frozen=True)
class Resources:
    """Registers of a thread, static shared memory of a block, and local memory of a thread, in bytes."""

    registers: int
    shared_bytes: int
    local_bytes: int


def find_cuobjdump() -> Path | None:
    """Return the cuobjdump of the toolkit that compiles the kernels, else of PATH, or None."""
    try:
        from opsmith.toolchain import find_cuda_compiler

        beside = find_cuda_compiler().nvcc.parent / "cuobjdump"
        if beside.is_file():
            return beside
    except ToolchainError:
        pass
    found = shutil.which("cuobjdump")
    return None if found is None else Path(found)


def resources_of(library: Path, tool: Path) -> dict[str, Resources]:
    """Return the resources of each kernel of a library, by its name as a profiler shows it; {} where it has none.

    A kernel that is there for several architectures is given as the last of them has it.
    """
    done = _subprocess.run([str(tool), "--dump-resource-usage", str(library)])
    found = parse_usage(done.output) if done.status == 0 else {}
    return {_plain(shown): found[name] for name, shown in _demangled(list(found)).items()}


def parse_usage(text: str) -> dict[str, Resources]:
    """Return what `cuobjdump --dump-resource-usage` says of each kernel, by its symbol."""
    found: dict[str, Resources] = {}
    name = None
    for line in text.splitlines():
        if (function := _FUNCTION.match(line)) is not None:
            name = function["name"]
        elif name is not None and (usage := _USAGE.search(line)) is not None:
            # Depending on the toolkit, spills are in the stack or beside it.
            local = int(usage["stack"]) + int(usage["local"])
            found[name] = Resources(int(usage["registers"]), int(usage["shared"]), local)
            name = None
    return found


def of_kernel(resources: dict[str, Resources], name: str) -> Resources | None:
    """Return the resources of a kernel by the name that a profiler shows."""
    return resources.get(_plain(name))


def _demangled(symbols: list[str]) -> dict[str, str]:
    """Return the names behind symbols; the symbols themselves where nothing can tell."""
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    if tool is None or not symbols:
        return {symbol: symbol for symbol in symbols}
    done = _subprocess.run([tool, *symbols])
    lines = done.output.splitlines()
    return dict(zip(symbols, lines if len(lines) == len(symbols) else symbols, strict=True))


def _plain(name: str) -> str:
    """Return a name without what demanglers write differently: blanks, casts, namespaces without a name, parameters.

    A kernel's parameters follow from its template arguments, which one demangler writes out and another names.
    """
    named = name.replace("(anonymous namespace)", "<unnamed>")
    return re.sub(r"\s+|\((?:int|unsigned int|bool|long|unsigned long)\)(?=-?\d)", "", named).partition("(")[0]
