"""Examines which GPUs the machine has, and whether torch can use them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from opsmith import _subprocess
from opsmith.doctor.finding import Finding, ok, problem, warning
from opsmith.doctor.torch_state import TorchState
from opsmith.toolchain.search import resolve_program

__all__ = ["GpuState", "ask_drivers", "judge_gpus"]

# The tools of a driver answer in a second, or hang with it.
_TIMEOUT_S = 20.0

_PYTORCH = "pip install --force-reinstall torch   (or as https://pytorch.org/get-started/locally says)"


@dataclass(frozen=True)
class GpuState:
    """What the drivers' own tools say, without torch."""

    names: tuple[str, ...] = ()
    driver: str | None = None
    driver_cuda: str | None = None  # the newest CUDA that the driver knows
    failure: str | None = None  # the output of an installed tool that does not work
    amd_archs: tuple[str, ...] = ()


def ask_drivers() -> GpuState:
    """Return what nvidia-smi and rocminfo say; either may be absent, and none is waited for beyond its time."""
    state = _ask_nvidia() if resolve_program("nvidia-smi") else GpuState()
    if resolve_program("rocminfo"):
        done = _subprocess.ask(["rocminfo"], timeout_s=_TIMEOUT_S)
        if isinstance(done, str):
            return GpuState(state.names, state.driver, state.driver_cuda, done)
        archs = tuple(dict.fromkeys(re.findall(r"^\s+Name:\s+(gfx\w+)", done.output, re.MULTILINE)))
        return GpuState(state.names, state.driver, state.driver_cuda, state.failure, archs)
    return state


def judge_gpus(state: GpuState, torch: TorchState) -> tuple[Finding, ...]:
    """Return what there is to say about GPUs; nothing on a machine without one."""
    found = []
    if state.failure is not None:
        remedy = "nvidia-smi   (if it does not answer either, restart the machine)"
        found.append(problem("driver", "GPU driver: does not answer", state.failure, remedy))
    if torch.gpu_error is not None:
        found.append(problem("GPU", "GPU: torch cannot use it", torch.gpu_error, _remedy(state, torch)))
    elif torch.gpus:
        names = {f"{gpu.name} ({gpu.arch})": None for gpu in torch.gpus}
        driver = f"driver {state.driver}, CUDA {state.driver_cuda}" if state.driver else ""
        found.append(ok("GPU", f"{len(torch.gpus)} x {', '.join(names)}", driver))
    elif (state.names or state.amd_archs) and torch.version and not torch.broken:
        found.append(_judge_unused(state, torch))
    return tuple(found)


def _judge_unused(state: GpuState, torch: TorchState) -> Finding:
    title = f"GPU: {', '.join(dict.fromkeys(state.names or state.amd_archs))}, not visible to torch"
    if torch.cuda or torch.hip:
        known = f"The driver {state.driver} supports CUDA up to {state.driver_cuda}; " if state.driver else ""
        detail = f"{known}torch is built for {torch.cuda or torch.hip}."
        return problem("GPU", title, detail, "unset CUDA_VISIBLE_DEVICES   (or install a newer driver)")
    return warning("GPU", title, f"torch {torch.version} is a CPU build.", _PYTORCH)


def _remedy(state: GpuState, torch: TorchState) -> str:
    if state.driver_cuda and torch.cuda and _version(state.driver_cuda) < _version(torch.cuda):
        wanted = f"cu{''.join(state.driver_cuda.split('.')[:2])}"
        index = f"https://download.pytorch.org/whl/{wanted}"
        return f"pip install --force-reinstall torch --index-url {index}   (or install a newer driver)"
    return "nvidia-smi"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _ask_nvidia() -> GpuState:
    done = _subprocess.ask(["nvidia-smi"], timeout_s=_TIMEOUT_S)
    if isinstance(done, str):
        return GpuState(failure=done)
    if done.status != 0:
        return GpuState(failure=" ".join(done.output.split()) or f"nvidia-smi ended with status {done.status}")
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    names = _subprocess.ask(query, timeout_s=_TIMEOUT_S)
    driver = re.search(r"Driver Version:\s*([\d.]+)", done.output)
    cuda = re.search(r"CUDA (?:UMD )?Version:\s*([\d.]+)", done.output)
    return GpuState(
        names=tuple(names.output.split("\n")[:-1]) if not isinstance(names, str) and names.status == 0 else (),
        driver=driver[1] if driver else None,
        driver_cuda=cuda[1] if cuda else None,
    )
