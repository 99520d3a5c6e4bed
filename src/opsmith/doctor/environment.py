"""Finds environment variables that are misspelt or set to a value that cannot be right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opsmith import _env
from opsmith.doctor.finding import Finding, problem, warning
from opsmith.errors import ArgumentError, ToolchainError
from opsmith.toolchain import default_probes, parse_cuda_archs, parse_rocm_archs
from opsmith.toolchain.host import describe_host_compiler
from opsmith.toolchain.search import is_executable

__all__ = ["Slip", "find_slips", "judge_slips"]

_TOPIC = "environment"


@dataclass(frozen=True)
class Slip:
    """A variable with a value that cannot be right, what is wrong with it, and the command that fixes it."""

    name: str
    value: str
    reason: str
    remedy: str


def find_slips(*, has_gpu: bool = False) -> tuple[Slip, ...]:
    """Return the variables of opsmith's table that are set and wrong, and those with its name that it does not know.

    `has_gpu` says whether the word "native" means anything here.
    """
    slips = []
    for variable in _env.VARIABLES:
        if (value := _env.read(variable.name)) is not None and (reason := _misfit(variable, value, has_gpu=has_gpu)):
            example = _EXAMPLES.get(variable.kind)
            remedy = f"unset {variable.name}" if example is None else f"export {variable.name}='{example}'"
            slips.append(Slip(variable.name, value, reason, remedy))
    slips += [Slip(name, "", "opsmith does not have this variable", f"unset {name}") for name in _env.unknown_names()]
    return tuple(slips)


def judge_slips(slips: tuple[Slip, ...]) -> tuple[Finding, ...]:
    """Return a problem for each wrong value, a warning for each unknown name."""
    return tuple(
        problem(_TOPIC, f"{slip.name}={slip.value}", slip.reason, slip.remedy)
        if slip.value
        else warning(_TOPIC, slip.name, slip.reason, slip.remedy)
        for slip in slips
    )


def _misfit(variable: _env.Variable, value: str, *, has_gpu: bool) -> str | None:
    """Return why a variable cannot have this value, or None if it can."""
    check = _CHECKS.get(variable.kind)
    if check is not None and (reason := check(variable.name, value)) is not None:
        return reason
    if variable.kind in _EXAMPLES and "native" in value.lower() and not has_gpu:
        return "'native' means this machine's GPU, but torch does not see one"
    return None


def _has_program(program: str) -> Callable[[str, str], str | None]:
    def check(name: str, value: str) -> str | None:
        if (reason := _has_no_home(name, value)) is not None:
            return reason
        file = _env.absolute_path(value, name) / "bin" / program
        return None if is_executable(file) else f"program {file} not found"

    return check


def _has_no_home(name: str, value: str) -> str | None:
    try:
        _env.absolute_path(value, name)
    except ArgumentError as error:
        return str(error)
    return None


def _is_compiler(name: str, value: str) -> str | None:
    from pathlib import Path

    # As for nvcc itself, NVCC_CCBIN may be the folder of the compiler.
    command = str(Path(value, "g++")) if name == "NVCC_CCBIN" and Path(value).is_dir() else value
    try:
        describe_host_compiler(command, variable=name, probes=default_probes())
    except ToolchainError as error:
        return str(error)
    return None


def _are_cuda_archs(name: str, value: str) -> str | None:
    try:
        # Whether nvcc knows them is nvcc's matter: "all" and "native" are words here, whatever they stand for.
        parse_cuda_archs(value, native=("9.0",), supported=() if "all" not in value.lower() else _ALL)
    except ToolchainError as error:
        return str(error)
    return None


def _are_rocm_archs(name: str, value: str) -> str | None:
    try:
        parse_rocm_archs(value, native=("gfx90a",))
    except ToolchainError as error:
        return str(error)
    return None


def _is_count(name: str, value: str) -> str | None:
    return None if value.isdigit() and int(value) > 0 else "not a number of compilers; ignored"


def _is_mode(name: str, value: str) -> str | None:
    return None if value in ("auto", "wait", "off") else "it must be auto, wait or off"


def _has_no_system_headers(name: str, value: str) -> str | None:
    if "/usr/include" in value.rstrip("/").split(":"):
        return "/usr/include hides the C library's headers from the C++ library's (stdlib.h: No such file)"
    return None


_ALL = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")

# Kind -> what is wrong with a value, or None. CUDA_HOME and CXX belong to the topics of their compilers.
_CHECKS: dict[_env.Kind, Callable[[str, str], str | None]] = {
    "folder": _has_no_home,
    "file": _has_no_home,
    "folder of ROCm": _has_program("hipcc"),
    "compiler": _is_compiler,
    "CUDA architectures": _are_cuda_archs,
    "ROCm architectures": _are_rocm_archs,
    "count": _is_count,
    "auto, wait or off": _is_mode,
    "header folders": _has_no_system_headers,
}
_EXAMPLES: dict[_env.Kind, str] = {"CUDA architectures": "8.0;9.0+PTX", "ROCm architectures": "gfx90a;gfx942"}
