"""Examines whether torch is installed and starts, and what it is built for."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsmith import _subprocess
from opsmith.catalogue import explain
from opsmith.doctor.finding import Finding, ok, problem
from opsmith.doctor.torch_probe import MARK
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_torch
from opsmith.toolchain.facts import gather_facts

__all__ = ["Gpu", "TorchState", "ask_torch", "judge_torch"]

# A cold import from a network file system takes a while; a driver that hangs takes forever.
_TIMEOUT_S = 120.0

_INSTALL = "pip install --upgrade torch"


@dataclass(frozen=True)
class Gpu:
    """A GPU that torch sees."""

    name: str
    arch: str  # 9.0 or gfx942
    memory_bytes: int


@dataclass(frozen=True)
class TorchState:
    """What is known about torch. `missing` says why its files cannot serve, `broken` why it cannot be imported."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    cxx11_abi: bool | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_error: str | None = None
    bridge: str | None = None
    bridge_failure: str | None = None
    bridge_misfit: str | None = None
    missing: str | None = None
    broken: str | None = None


def ask_torch() -> TorchState:
    """Return torch's state, from its files and from a process that imports it."""
    try:
        files = find_torch()
    except ToolchainError as error:
        return TorchState(missing=str(error))
    # That process finds opsmith where this one did.
    here = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    program = [sys.executable, "-m", "opsmith.doctor.torch_probe"]
    done = _subprocess.ask(program, timeout_s=_TIMEOUT_S, env={"PYTHONPATH": path})
    known = TorchState(files.version, files.cuda, files.hip)
    if isinstance(done, str):
        return TorchState(files.version, files.cuda, files.hip, broken=done)
    _, found, answer = done.output.partition(MARK)
    if not found:
        last = done.output.strip().splitlines()[-1:] or [f"Python ended with status {done.status}"]
        return TorchState(files.version, files.cuda, files.hip, broken=last[0])
    return _read(json.loads(answer.splitlines()[0]), known)


def judge_torch(state: TorchState) -> tuple[Finding, ...]:
    """Return what there is to say about torch itself."""
    if state.missing is not None:
        return (problem("torch", "torch: not usable", state.missing, _INSTALL),)
    name = f"torch {state.version} ({_built_for(state)})"
    if state.broken is not None:
        found = explain(state.broken, gather_facts())
        detail = f"`import torch` fails: {state.broken}" + (f"\n{found[0].cause}" if found else "")
        return (problem("torch", name, detail, f"pip install --force-reinstall torch=={_public(state.version)}"),)
    abi = "the new C++ string ABI" if state.cxx11_abi else "the old C++ string ABI (_GLIBCXX_USE_CXX11_ABI=0)"
    return (ok("torch", name, f"built with {abi}"),)


def _read(answer: dict[str, Any], known: TorchState) -> TorchState:
    return TorchState(
        version=known.version,
        cuda=answer["cuda"],
        hip=answer["hip"],
        cxx11_abi=answer["cxx11_abi"],
        gpus=tuple(Gpu(**gpu) for gpu in answer["gpus"]),
        gpu_error=answer["gpu_error"],
        bridge=answer["bridge"],
        bridge_failure=answer["bridge_failure"],
        bridge_misfit=answer["bridge_misfit"],
    )


def _built_for(state: TorchState) -> str:
    return f"CUDA {state.cuda}" if state.cuda else f"ROCm {state.hip}" if state.hip else "CPU"


def _public(version: str | None) -> str:
    """Return a version without its local part: 2.13.0 of 2.13.0+cpu."""
    return (version or "").partition("+")[0]
