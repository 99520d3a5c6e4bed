"""Examines what C++ is built with: a compiler, ninja, and Python's headers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opsmith import _env
from opsmith.doctor.finding import Finding, ok, problem, warning
from opsmith.errors import ToolchainError
from opsmith.toolchain import HostCompiler, default_probes, find_host_compiler, find_ninja, find_python_headers

__all__ = ["BuildTools", "find_build_tools", "judge_build_tools"]

T = TypeVar("T")


@dataclass(frozen=True)
class BuildTools:
    """What was found, or the words of the refusal."""

    host: HostCompiler | str
    ninja: str | ToolchainError
    ninja_version: str
    python_headers: str | ToolchainError
    cxx: str | None  # what CXX says


def find_build_tools() -> BuildTools:
    """Return what this machine has to build C++ with."""
    host = _try(find_host_compiler)
    ninja, headers = _try(find_ninja), _try(find_python_headers)
    return BuildTools(
        host=str(host) if isinstance(host, ToolchainError) else host,
        ninja=ninja if isinstance(ninja, ToolchainError) else str(ninja),
        ninja_version=_ninja_version(ninja),
        python_headers=headers if isinstance(headers, ToolchainError) else str(headers.include_dirs[0]),
        cxx=_env.read("CXX"),
    )


def judge_build_tools(tools: BuildTools) -> tuple[Finding, ...]:
    """Return what there is to say about them."""
    return (_judge_host(tools), _judge_ninja(tools.ninja, tools.ninja_version), _judge_headers(tools.python_headers))


def _judge_host(tools: BuildTools) -> Finding:
    if isinstance(tools.host, str):
        remedy = "unset CXX" if tools.cxx else "apt-get install g++   (or: conda install -c conda-forge gxx)"
        return problem("host compiler", "C++ compiler: none usable", tools.host, remedy)
    name = "g++" if tools.host.kind == "gcc" else "clang++"
    launcher = f", through {tools.host.launcher[0]}" if tools.host.launcher else ""
    return ok("host compiler", f"{name} {tools.host.version}", f"{tools.host.path}{launcher}")


def _judge_ninja(ninja: str | ToolchainError, version: str) -> Finding:
    if isinstance(ninja, ToolchainError):
        return warning("ninja", "ninja: not found", f"{ninja}\nBuilds run without it too.", "pip install ninja")
    return ok("ninja", f"ninja {version}".rstrip(), ninja)


def _judge_headers(headers: str | ToolchainError) -> Finding:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if isinstance(headers, ToolchainError):
        detail = f"{headers}\nopsmith's operators build without them; pybind11 modules and the bridge do not."
        return warning("Python headers", "Python.h: not found", detail, f"apt-get install python{version}-dev")
    return ok("Python headers", f"Python.h {version}", headers)


def _ninja_version(ninja: Path | ToolchainError) -> str:
    if isinstance(ninja, ToolchainError):
        return ""
    try:
        # 1.13.0.git.kitware.jobserver-pipe-1
        return ".".join(default_probes().ask(ninja, "--version").split(".")[:2])
    except ToolchainError:
        return "does not start"


def _try(find: Callable[[], T]) -> T | ToolchainError:
    try:
        return find()
    except ToolchainError as error:
        return error
