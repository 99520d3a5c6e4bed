"""Which environment variables are set to something that cannot be?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opsmith import _env
from opsmith.doctor.finding import Finding, problem, warning
from opsmith.errors import ToolchainError
from opsmith.toolchain import default_probes, parse_cuda_archs, parse_rocm_archs
from opsmith.toolchain.host import describe_host_compiler
from opsmith.toolchain.search import is_executable

__all__ = ["Slip", "find_slips", "judge_slips"]

_TOPIC = "environment"


@dataclass(frozen=True)
class Slip:
    """A variable with a value that cannot be, what is wrong with it, and what mends it."""

    name: str
    value: str
    reason: str
    remedy: str


def find_slips(*, has_gpu: bool = False) -> tuple[Slip, ...]:
    """Return the variables of opsmith's table that are set and wrong, and those with its name that it does not know.

    `has_gpu` says whether the word "native" means anything here.
    """
    slips = []
    for name, check in _CHECKS.items():
        value = _env.read(name)
        if value is not None and (reason := check(name, value)) is not None:
            slips.append(Slip(name, value, reason, _REMEDIES.get(name, f"unset {name}")))
    slips += [
        Slip(name, value, "'native' means this machine's GPU, and torch sees none", _REMEDIES[name])
        for name in _ARCHS
        if (value := _env.read(name)) is not None and "native" in value.lower() and not has_gpu
    ]
    slips += [Slip(name, "", "opsmith knows no such variable", f"unset {name}") for name in _env.unknown_names()]
    return tuple(slips)


def judge_slips(slips: tuple[Slip, ...]) -> tuple[Finding, ...]:
    """Return a problem for each wrong value, a warning for each unknown name."""
    return tuple(
        problem(_TOPIC, f"{slip.name}={slip.value}", slip.reason, slip.remedy)
        if slip.value
        else warning(_TOPIC, slip.name, slip.reason, slip.remedy)
        for slip in slips
    )


def _has_program(program: str) -> Callable[[str, str], str | None]:
    def check(name: str, value: str) -> str | None:
        from pathlib import Path

        file = Path(value).expanduser() / "bin" / program
        return None if is_executable(file) else f"there is no program {file}"

    return check


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
    return None if value.isdigit() and int(value) > 0 else "it is no number of compilers, and is not heeded"


def _is_bridge_mode(name: str, value: str) -> str | None:
    return None if value in ("auto", "wait", "off") else "it can be auto, wait or off"


def _has_no_system_headers(name: str, value: str) -> str | None:
    if "/usr/include" in value.rstrip("/").split(":"):
        return "/usr/include in it hides the C library's headers from the C++ library's (stdlib.h: No such file)"
    return None


_ARCHS = ("OPSMITH_CUDA_ARCHS", "TORCH_CUDA_ARCH_LIST", "OPSMITH_ROCM_ARCHS", "PYTORCH_ROCM_ARCH")
_ALL = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")

# Variable -> what is wrong with a value, or None. CUDA_HOME itself is the topic of the CUDA compiler.
_CHECKS: dict[str, Callable[[str, str], str | None]] = {
    "ROCM_PATH": _has_program("hipcc"),
    "ROCM_HOME": _has_program("hipcc"),
    "NVCC_CCBIN": _is_compiler,
    "OPSMITH_CUDA_ARCHS": _are_cuda_archs,
    "TORCH_CUDA_ARCH_LIST": _are_cuda_archs,
    "OPSMITH_ROCM_ARCHS": _are_rocm_archs,
    "PYTORCH_ROCM_ARCH": _are_rocm_archs,
    "OPSMITH_JOBS": _is_count,
    "MAX_JOBS": _is_count,
    "OPSMITH_BRIDGE": _is_bridge_mode,
    "CPATH": _has_no_system_headers,
    "CPLUS_INCLUDE_PATH": _has_no_system_headers,
    "C_INCLUDE_PATH": _has_no_system_headers,
}
_REMEDIES = {
    "OPSMITH_CUDA_ARCHS": "export OPSMITH_CUDA_ARCHS='8.0;9.0+PTX'",
    "TORCH_CUDA_ARCH_LIST": "export TORCH_CUDA_ARCH_LIST='8.0;9.0+PTX'",
    "OPSMITH_ROCM_ARCHS": "export OPSMITH_ROCM_ARCHS='gfx90a;gfx942'",
    "PYTORCH_ROCM_ARCH": "export PYTORCH_ROCM_ARCH='gfx90a;gfx942'",
}
