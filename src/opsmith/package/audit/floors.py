"""Computes what a file can run with: the oldest torch, Python and glibc, and which CUDA, from what its libraries need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from opsmith.package.audit.driver import DriverNeed, find_driver
from opsmith.package.audit.facts import Library
from opsmith.package.audit.tables import Policy, limited_api, policies
from opsmith.toolchain.shims import Release, shim_table

__all__ = [
    "CUDA_LIBRARY",
    "HIP_RUNTIME",
    "Floors",
    "SystemNeed",
    "bundled_names",
    "cuda_majors",
    "find_floors",
    "glibc_floor",
    "system_needs",
]

_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)")
# Relative relocations in the packed form need a loader that knows them; the version is a mark, not a number.
_MARKS = {"GLIBC_ABI_DT_RELR": (2, 36)}
CUDA_LIBRARY = re.compile(r"lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)\.so\.(\d+)")
HIP_RUNTIME = re.compile(r"libamdhip64\.so\.(\d+)")
_LIBC = "libc.so.6"


@dataclass(frozen=True)
class SystemNeed:
    """A version of the system's symbols that a library needs, and a symbol that needs it."""

    family: str  # GLIBC, GLIBCXX, CXXABI or GCC
    version: tuple[int, ...]
    symbol: str
    path: str


@dataclass(frozen=True)
class Floors:
    """The oldest releases that all libraries of a file run with; None where nothing is needed.

    `torch_is_exact` says that torch's C++ API is used: then only the release that was built with is sure to fit.
    """

    torch: Release | None
    torch_because: str
    torch_is_exact: bool
    uses_torch: bool
    python: Release | None
    python_because: str
    python_is_exact: bool
    glibc: Release | None
    glibc_because: str
    platform: str  # the oldest manylinux tag, or empty
    cuda: tuple[int, ...]
    rocm: tuple[int, ...]
    driver: DriverNeed | None


def find_floors(libraries: Iterable[Library]) -> Floors:
    """Return the floors of libraries that are delivered together."""
    libraries = tuple(libraries)
    torch, torch_because = _newest(shim_table().since, [name for item in libraries for name in item.needs.shims])
    python, python_because = _newest(
        limited_api().since, [name for item in libraries for name in item.needs.python_limited]
    )
    needs = tuple(system_needs(libraries))
    newest = max((need for need in needs if need.family == "GLIBC"), key=lambda need: need.version, default=None)
    private = [name for item in libraries for name in item.needs.python_private]
    return Floors(
        torch=torch,
        torch_because=torch_because,
        torch_is_exact=any(item.needs.torch_cpp for item in libraries),
        uses_torch=any(item.needs.uses_torch for item in libraries),
        python=python,
        python_because=private[0] if private else python_because,
        python_is_exact=bool(private),
        glibc=(newest.version[0], newest.version[1]) if newest else None,
        glibc_because=newest.symbol if newest else "",
        platform=_platform(libraries, needs),
        cuda=_majors(libraries, CUDA_LIBRARY),
        rocm=_majors(libraries, HIP_RUNTIME),
        driver=find_driver(libraries),
    )


def bundled_names(libraries: Iterable[Library]) -> set[str]:
    """Return the names by which a file's own libraries are needed."""
    return {name for library in libraries for name in (library.name, library.elf.soname) if name}


def system_needs(libraries: Iterable[Library]) -> Iterator[SystemNeed]:
    """Yield the versions of glibc's and libstdc++'s symbols that libraries need, the newest of each family and library.

    What a library that is delivered with them provides is not needed of the system.
    """
    libraries = tuple(libraries)
    bundled = bundled_names(libraries)
    for library in libraries:
        users: dict[tuple[str, str], str] = {}
        for symbol in library.elf.symbols:
            if symbol.version:
                users.setdefault((symbol.library, symbol.version), symbol.name)
        newest: dict[str, SystemNeed] = {}
        for file, version in library.elf.versions:
            if file in bundled:
                continue
            family, numbers = _family(version)
            if not family:
                continue
            need = SystemNeed(family, numbers, users.get((file, version), version), library.path)
            if family not in newest or newest[family].version < numbers:
                newest[family] = need
        yield from newest.values()


def glibc_floor(need: SystemNeed, policy: Policy) -> bool:
    """Tell whether a policy's systems have what is needed."""
    if need.family == "GLIBC":
        return need.version[:2] <= policy.glibc
    allowed = policy.newest.get(need.family)
    return allowed is None or need.version <= allowed


def cuda_majors(libraries: Iterable[Library]) -> tuple[int, ...]:
    """Return the major versions of CUDA whose libraries are needed by name."""
    return _majors(libraries, CUDA_LIBRARY)


def _majors(libraries: Iterable[Library], pattern: re.Pattern[str]) -> tuple[int, ...]:
    found = {int(match[1]) for item in libraries for name in item.elf.needed if (match := pattern.fullmatch(name))}
    return tuple(sorted(found))


def _family(version: str) -> tuple[str, tuple[int, ...]]:
    if version in _MARKS:
        return "GLIBC", _MARKS[version]
    match = _VERSION.fullmatch(version)
    return (match[1], tuple(int(part) for part in match[2].split(".") if part)) if match else ("", ())


def _newest(since: Mapping[str, Release], names: list[str]) -> tuple[Release | None, str]:
    """Return the newest release that one of the names needs, and that name."""
    if not names:
        return None, ""
    name = max(sorted(names), key=lambda item: since[item])
    return since[name], name


def _platform(libraries: tuple[Library, ...], needs: tuple[SystemNeed, ...]) -> str:
    """Return the oldest manylinux tag whose systems have everything that is needed, with the architecture."""
    machines = {library.elf.machine for library in libraries}
    if len(machines) != 1:
        return ""
    machine = machines.pop()
    fitting = (policy for policy in policies(machine) if all(glibc_floor(need, policy) for need in needs))
    best = next(fitting, None)
    return f"{best.tag}_{machine}" if best else ""
