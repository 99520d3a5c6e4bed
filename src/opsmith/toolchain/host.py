"""Finds the C++ compiler for host code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opsmith import _env
from opsmith.errors import ToolchainError
from opsmith.toolchain.oldest import OLDEST_HOST
from opsmith.toolchain.probe import ProbeCache, default_probes
from opsmith.toolchain.search import executables, is_executable, resolve_program

__all__ = ["HostCompiler", "clang_files", "describe_host_compiler", "find_host_compiler"]

Kind = Literal["gcc", "clang"]

_INSTALL = (
    "Install one with `apt-get install g++`, `dnf install gcc-c++` or `conda install -c conda-forge gxx`, "
    "or set CXX to its path."
)

# Tried in this order where CXX is not set.
_NAMES = ("c++", "g++", "clang++")

# Programs that stand before the compiler, or under its name before it on PATH.
_LAUNCHERS = frozenset({"buildcache", "ccache", "distcc", "icecc", "sccache"})


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler and how it is called."""

    path: Path
    kind: Kind
    version: str
    target: str
    release: str  # the compiler's own words, with the distribution's patch level
    launcher: tuple[str, ...] = ()  # such as ccache
    arguments: tuple[str, ...] = ()  # what CXX says after the compiler

    @property
    def command(self) -> tuple[str, ...]:
        """The words that each command line starts with."""
        return (*self.launcher, str(self.path), *self.arguments)

    @property
    def identity(self) -> str:
        """What must be equal for two compilers to make the same binary; the path is not in it."""
        return " ".join((self.release, self.target, *self.arguments))


@dataclass(frozen=True)
class _Dialect:
    """How one kind of compiler tells its version in the answer to -v."""

    kind: Kind
    release: re.Pattern[str]


_DIALECTS = (
    _Dialect("gcc", re.compile(r"^gcc version (?P<version>[\d.]+).*$", re.MULTILINE)),
    _Dialect("clang", re.compile(r"^.*\bclang version (?P<version>[\d.]+).*$", re.MULTILINE)),
)
_TARGET = re.compile(r"^Target: (\S+)", re.MULTILINE)


def find_host_compiler(*, probes: ProbeCache | None = None) -> HostCompiler:
    """Return the compiler that CXX names, else the first fit one of c++, g++ and clang++ on PATH.

    CXX may hold arguments and a launcher, such as `ccache g++ -m64`. Raises ToolchainError if there is none, it is
    older than OLDEST_HOST, or it cannot start.
    """
    probes = probes or default_probes()
    if command := _env.read("CXX"):
        return describe_host_compiler(command, variable="CXX", probes=probes)
    refusals = []
    for name in _NAMES:
        if resolve_program(name) is None:
            continue
        try:
            return describe_host_compiler(name, variable="PATH", probes=probes)
        except ToolchainError as error:
            refusals.append(str(error))
    if refusals:
        raise ToolchainError("\n".join(refusals))
    raise ToolchainError(
        f"No C++ compiler was found: CXX is not set, and PATH has no {' or '.join(_NAMES)}. {_INSTALL}"
    )


def describe_host_compiler(command: str, *, variable: str, probes: ProbeCache) -> HostCompiler:
    """Return the compiler of a command line that `variable` holds or found. Raises ToolchainError if it is unusable."""
    launcher, path, arguments = _split(command, variable)
    answer = probes.ask(path, *arguments, "-v", depends_on=lambda answer: (*_gcc_files(answer), *clang_files(answer)))
    for dialect in _DIALECTS:
        if release := dialect.release.search(answer):
            break
    else:
        raise ToolchainError(f"{path} (from {variable}) is neither gcc nor clang. {_INSTALL}")
    version = release["version"]
    if int(version.split(".")[0]) < OLDEST_HOST[dialect.kind]:
        raise ToolchainError(
            f"{path} (from {variable}) is {dialect.kind} {version}; opsmith needs {dialect.kind} "
            f"{OLDEST_HOST[dialect.kind]} or newer. {_INSTALL}"
        )
    target = _TARGET.search(answer)
    return HostCompiler(
        path, dialect.kind, version, target[1] if target else "", release[0].strip(), launcher, arguments
    )


def clang_files(answer: str) -> Iterable[Path]:
    """Return the clang that an answer to -v or --version came from: what to watch behind a script."""
    folder = re.search(r"^InstalledDir: (.+)$", answer, re.MULTILINE)
    version = re.search(r"\bclang version (\d+)", answer)
    if not folder or not version:
        return ()
    return filter(is_executable, (Path(folder[1], "clang"), Path(folder[1], f"clang-{version[1]}")))


def _gcc_files(answer: str) -> Iterable[Path]:
    # gcc names no folder of its own, but this file of the same package.
    found = re.search(r"^COLLECT_LTO_WRAPPER=(.+)$", answer, re.MULTILINE)
    return filter(Path.is_file, (Path(found[1]),)) if found else ()


def _split(command: str, variable: str) -> tuple[tuple[str, ...], Path, tuple[str, ...]]:
    """Take a command line apart: launcher, compiler, arguments."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ToolchainError(f"{variable} is {command!r}, which is not a command line: {error}") from error
    launcher: list[str] = []
    while words:
        program = resolve_program(words[0])
        if program is None:
            raise ToolchainError(f"{variable} is {command!r}, but {words[0]!r} is not installed. {_INSTALL}")
        if program.name not in _LAUNCHERS:
            disguise, compiler = _unmask(program)
            return (*launcher, *disguise), compiler, tuple(words[1:])
        launcher.append(str(program))
        words = words[1:]
    raise ToolchainError(f"{variable} is {command!r}, which does not name a compiler. {_INSTALL}")


def _unmask(program: Path) -> tuple[tuple[str, ...], Path]:
    """See through a link such as /usr/lib/ccache/g++: its version is that of the next g++ on PATH."""
    if program.resolve().name not in _LAUNCHERS:
        return (), program
    for compiler in _others(program):
        return (str(program.resolve()),), compiler
    raise ToolchainError(
        f"{program} is a link to {program.resolve()}, and PATH has no compiler {program.name}. {_INSTALL}"
    )


def _others(program: Path) -> Iterator[Path]:
    return (path for path in executables(program.name) if path.resolve().name not in _LAUNCHERS)
