"""Examines whether CUDA can be compiled here, and whether the result fits torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opsmith.catalogue.packages import toolkit_command
from opsmith.doctor.finding import Finding, ok, problem, warning
from opsmith.doctor.torch_state import TorchState
from opsmith.errors import ToolchainError
from opsmith.toolchain import CudaCompiler, default_probes, find_cuda_compiler
from opsmith.toolchain.cuda import real_nvcc
from opsmith.toolchain.nvcc_search import chosen_nvcc, found_nvccs

__all__ = ["CudaState", "find_cuda_state", "judge_cuda"]

_TOPIC = "CUDA compiler"
_CPU_BUILD = "torch is a CPU build, so CUDA operators can be compiled here but not run."


@dataclass(frozen=True)
class CudaState:
    """The nvcc that a build would use, or why it would have none."""

    compiler: CudaCompiler | None
    refusal: str | None
    origin: str | None  # what led to it: CUDA_HOME, PATH, conda, /usr/local/cuda, PyPI
    header_version: str | None  # the CUDA that the headers beside it are of
    others: tuple[str, ...] = ()  # further nvccs, as they are found


def find_cuda_state(torch: TorchState) -> CudaState:
    """Return what this machine has to compile CUDA with."""
    try:
        chosen = chosen_nvcc()
        candidates = [chosen] if chosen else list(found_nvccs())
        compiler = find_cuda_compiler(fit=torch.cuda)
    except ToolchainError as error:
        found = [str(candidate.path) for candidate in found_nvccs()]
        return CudaState(None, str(error), None, None, tuple(found))
    used = [candidate for candidate in candidates if _is_of(candidate.path, compiler)]
    others = [str(candidate.path) for candidate in candidates if candidate not in used]
    return CudaState(compiler, None, used[0].origin, _header_version(compiler.include), tuple(others))


def judge_cuda(state: CudaState, torch: TorchState, *, has_host: bool = True) -> tuple[Finding, ...]:
    """Return what there is to say about compiling CUDA; `has_host` tells whether there is a C++ compiler at all."""
    if torch.hip:
        return ()
    if state.compiler is None:
        return (_judge_absence(state, torch, has_host=has_host),)
    nvcc = state.compiler
    name = f"nvcc {nvcc.version} ({state.origin})"
    host = "g++" if nvcc.host.kind == "gcc" else "clang++"
    numbers = [arch.replace(".", "") for arch in nvcc.archs] or ["?"]
    detail = f"{nvcc.nvcc}, with {host} {nvcc.host.version} ({nvcc.host.path}), for sm_{numbers[0]} to sm_{numbers[-1]}"
    if torch.cuda and nvcc.version.split(".")[0] != torch.cuda.split(".")[0]:
        wrong = f"torch {torch.version} is built for CUDA {torch.cuda}; this nvcc's libraries cannot share its process."
        return (problem(_TOPIC, name, wrong, toolkit_command(torch.cuda)),)
    found = [ok(_TOPIC, name, detail)]
    if state.header_version and state.header_version != ".".join(nvcc.version.split(".")[:2]):
        found.append(
            problem(
                _TOPIC,
                f"CUDA headers {state.header_version} with nvcc {nvcc.version}",
                "The parts of this toolkit have different versions; kernels that include CUB or Thrust do not compile.",
                toolkit_command(torch.cuda or state.header_version),
            )
        )
    if nvcc.cudart is None:
        found.append(
            problem(
                _TOPIC, "CUDA runtime: no libcudart", f"{nvcc.root} does not contain it.", toolkit_command(nvcc.version)
            )
        )
    return tuple(found)


def _judge_absence(state: CudaState, torch: TorchState, *, has_host: bool) -> Finding:
    refusal = state.refusal or ""
    if refusal.startswith(("CUDA_HOME", "CUDA_PATH")):
        return problem(_TOPIC, "CUDA compiler: not where the environment says", refusal, f"unset {refusal.split()[0]}")
    if state.others and not has_host:
        detail = f"{state.others[0]} needs a C++ compiler."
        return warning(_TOPIC, "CUDA compiler: found but not usable", detail, "apt-get install g++")
    title = f"CUDA compiler: {state.others[0]} cannot be used" if state.others else "CUDA compiler: none found"
    if torch.cuda:
        return problem(_TOPIC, title, refusal, toolkit_command(torch.cuda))
    detail = refusal if state.others or torch.missing else _CPU_BUILD
    return warning(_TOPIC, title, detail, 'pip install "opsmith[cuda]"')


def _is_of(path: Path, compiler: CudaCompiler) -> bool:
    try:
        return real_nvcc(path, default_probes()) == compiler.nvcc
    except ToolchainError:  # a broken one beside the one that is used
        return False


def _header_version(include: Path) -> str | None:
    try:
        text = (include / "cuda_runtime_api.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # 13020 is 13.2.
    found = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else None
