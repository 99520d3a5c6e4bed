"""Builds, loads and calls an operator to find out whether that works here, and how long it takes."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from opsmith import _subprocess
from opsmith.doctor.finding import Finding, ok, problem

__all__ = ["try_builds"]

# The smallest operator of the library: a sum.
_MODULE = "opsmith.ops.add2"
_TIMEOUT_S = 600.0

_CALL = f"""
import torch
from {_MODULE} import add2
x = torch.arange(5, dtype=torch.float32, device="{{device}}")
assert add2(x, x).cpu().tolist() == [0.0, 2.0, 4.0, 6.0, 8.0], add2(x, x)
"""


def try_builds(*, cuda: bool, has_gpu: bool) -> tuple[Finding, ...]:
    """Build the operator `add2` in a store that is thrown away, and call it where it can run."""
    found = [_try("cpu", can_run=True)]
    if cuda:
        found.append(_try("cuda", can_run=has_gpu))
    return tuple(found)


def _try(device: str, *, can_run: bool) -> Finding:
    with tempfile.TemporaryDirectory(prefix="opsmith-doctor-") as folder:
        here = str(Path(__file__).resolve().parents[2])
        env = {
            "OPSMITH_CACHE_DIR": str(Path(folder, "store")),
            "OPSMITH_BRIDGE": "off",
            "OPSMITH_QUIET": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")])),
        }
        # A machine without a GPU does not determine an architecture; one is enough to test the compiler.
        archs = ["--arch", "9.0"] if device == "cuda" and not can_run else []
        command = [sys.executable, "-m", "opsmith", "build", _MODULE, "--device", device, *archs]
        start = time.perf_counter()
        if (failure := _failure(command, Path(folder), env)) is not None:
            return problem("trial", f"{device}: {_MODULE} does not build", failure, "opsmith build opsmith.ops.add2 -v")
        built_s = time.perf_counter() - start
        if can_run:
            call = [sys.executable, "-c", _CALL.format(device=device)]
            if (failure := _failure(call, Path(folder), env)) is not None:
                return problem(
                    "trial", f"{device}: {_MODULE} does not run", failure, "opsmith build opsmith.ops.add2 -v"
                )
    ran = ", called" if can_run else ", not called (no GPU)"
    detail = f"{_MODULE}; the time includes starting Python and importing torch"
    return ok("trial", f"{device}: built in {built_s:.1f} s{ran}", detail)


def _failure(command: list[str], folder: Path, env: dict[str, str]) -> str | None:
    done = _subprocess.ask(command, timeout_s=_TIMEOUT_S, cwd=folder, env=env)
    if isinstance(done, str):
        return done
    return done.output.strip() or f"status {done.status}" if done.status != 0 else None
