"""Examines whether ROCm can be compiled here."""

from __future__ import annotations

from dataclasses import dataclass

from opsmith.doctor.finding import Finding, ok, problem
from opsmith.doctor.torch_state import TorchState
from opsmith.errors import ToolchainError
from opsmith.toolchain import RocmCompiler, find_rocm_compiler

__all__ = ["RocmState", "find_rocm_state", "judge_rocm"]


@dataclass(frozen=True)
class RocmState:
    """The hipcc that a build would use, or why it would have none."""

    compiler: RocmCompiler | None
    refusal: str | None


def find_rocm_state() -> RocmState:
    """Return what this machine has to compile ROCm with."""
    try:
        return RocmState(find_rocm_compiler(), None)
    except ToolchainError as error:
        return RocmState(None, str(error))


def judge_rocm(state: RocmState, torch: TorchState) -> tuple[Finding, ...]:
    """Return the findings; without a ROCm build of torch a missing hipcc is not one."""
    if state.compiler is not None:
        return (ok("ROCm compiler", f"hipcc {state.compiler.version}", str(state.compiler.hipcc)),)
    if torch.hip:
        return (problem("ROCm compiler", "ROCm compiler: none found", state.refusal or "", "apt-get install hipcc"),)
    return ()
