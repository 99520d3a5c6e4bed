"""Runs an operator under a sanitizer, the host compiler's or NVIDIA's, and reports what that sees.

The operator's library is built again with the sanitizer's flags, which are part of its key in the store, and loaded in
a process that has loaded the sanitizer's runtime first.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opsmith._subprocess import Completed, run
from opsmith.build.plan import INCLUDE_DIR
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.report import Column, Report, Result
from opsmith.checker.sanitize.output import MARK, Sighting, read_output
from opsmith.checker.sanitize.tools import GPU_TOOLS, SANITIZERS, environment_of, find_compute_sanitizer
from opsmith.errors import ArgumentError
from opsmith.runtime.operator import Operator

__all__ = ["Request", "run_sanitizer"]

_TIMEOUT_S = 1800
_MOST_FINDINGS = 10


@dataclass(frozen=True)
class Request:
    """What a sanitizer's process runs, in words that it can find again: as on the command line of `opsmith check`.

    After `seconds`, if given, the later inputs of a fixed order are left out, of each element type alike.
    """

    path: str
    reference: str | None = None
    examples: str | None = None
    imports: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    seed: int = 0
    seconds: float | None = None


def run_sanitizer(op: Any, kind: str, request: Request | None = None) -> Report:
    """Run an operator under a sanitizer and return what that saw, as a report with one property of its name.

    `kind` is address, undefined or thread, for operators of opsmith's on the CPU, or memcheck, racecheck, initcheck or
    synccheck on a GPU, for any operator that `request` tells how to find. Raises ArgumentError for what cannot be
    sanitized, ToolchainError where the sanitizer is not installed.
    """
    is_gpu = kind in GPU_TOOLS
    if kind not in SANITIZERS and not is_gpu:
        raise ArgumentError(f"unknown sanitizer {kind!r}; there are {', '.join((*SANITIZERS, *GPU_TOOLS))}")
    name = request.path if request is not None else repr(op)
    if isinstance(op, Operator):
        definition = op.definition
        name = f"{definition.namespace}.{definition.name}"
        device = "cuda" if is_gpu else "cpu"
        if device not in definition.kernels:
            return _report(name, kind, device, request, not_run(f"{name} has no kernel for {device}"), 0.0)
        if definition.module == "__main__":
            raise ArgumentError(f"{name} is defined in a script, but a sanitizer's process can only import modules")
        path = f"{definition.module}::{definition.name}"
        request = replace(request, path=path) if request is not None else Request(path)
    elif not is_gpu:
        raise ArgumentError(
            f"{name} was not built by opsmith, so it cannot be rebuilt with a sanitizer. On a GPU, "
            f"{', '.join(GPU_TOOLS)} need no rebuild"
        )
    elif request is None:
        raise ArgumentError("an operator that opsmith did not make needs a request, which says how it is found")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="opsmith-sanitize-") as folder:
        outcome = _outcome(op, kind, _start(kind, request, environment_of(kind, Path(folder))))
    return _report(name, kind, "cuda" if is_gpu else "cpu", request, outcome, time.perf_counter() - started)


def _report(name: str, kind: str, device: str, request: Request | None, outcome: Outcome, seconds: float) -> Report:
    result = Result(kind, Column(device, ""), replace(outcome, seconds=seconds))
    notes: tuple[str, ...] = ()
    if outcome.left_out:
        total = outcome.inputs + outcome.left_out
        notes = (f"{outcome.left_out} of {total} inputs did not fit into the time, the later ones of a fixed order",)
    return Report(name, (result,), request.seed if request is not None else 0, seconds, notes)


def _start(kind: str, request: Request, environment: dict[str, str]) -> Completed | str:
    """Run the process; return its result, or a text that says why there is none."""
    words = {
        "path": request.path,
        "reference": request.reference,
        "examples": request.examples,
        "imports": request.imports,
        "dtypes": request.dtypes,
        "seed": request.seed,
        "seconds": request.seconds,
        "kind": kind,
        "device": "cuda" if kind in GPU_TOOLS else "cpu",
        "search": [folder for folder in sys.path if folder],
    }
    argv = [*_head(kind), sys.executable, "-m", "opsmith.checker.sanitize.child", json.dumps(words)]
    source = str(Path(__file__).parents[3])
    try:
        return run(argv, env={**environment, "PYTHONPATH": source}, timeout_s=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"not finished within {_TIMEOUT_S} s"


def _head(kind: str) -> list[str]:
    if kind in GPU_TOOLS:
        return [str(find_compute_sanitizer()), "--tool", kind, "--target-processes", "all", "--print-limit", "100"]
    # ThreadSanitizer of older compilers does not fit into an address space that is random in many bits.
    setarch = shutil.which("setarch") if kind == "thread" else None
    return [setarch, "-R"] if setarch and run([setarch, "-R", "true"]).status == 0 else []


def _outcome(op: Any, kind: str, done: Completed | str) -> Outcome:
    if isinstance(done, str):
        return not_run(done)
    files = _files(op)
    sightings = read_output(done.output, files)
    made, left_out = _made(done.output)
    if sightings:
        shown = [_finding(sighting, kind) for sighting in sightings[:_MOST_FINDINGS]]
        more = len(sightings) - len(shown)
        return failed(*shown, inputs=made or 1, note=f"{more} more reports" if more else "")
    if made is None:
        last = [line for line in done.output.splitlines() if line and not line.startswith(MARK)][-12:]
        return not_run(f"the process ended with status {done.status} before the last call:\n" + "\n".join(last))
    if made == 0:
        return not_run("the reference rejects every input")
    return passed(made, left_out=left_out)


def _files(op: Any) -> list[Path]:
    """Return the files whose lines are the user's: those of kernels, what is next to them, and opsmith's headers."""
    if not isinstance(op, Operator):
        return []
    sources = [source for kernel in op.definition.kernels.values() for source in kernel.sources]
    if op.gradient is not None:
        sources += [source for kernel in op.gradient.definition.kernels.values() for source in kernel.sources]
    folders = dict.fromkeys(source.parent for source in sources)
    beside = [file for folder in folders for file in sorted(folder.iterdir()) if file.suffix in _SUFFIXES]
    return [*dict.fromkeys([*sources, *beside]), *sorted(INCLUDE_DIR.rglob("*.h"))]


_SUFFIXES = frozenset({".h", ".hpp", ".hh", ".cuh", ".inl", ".cpp", ".cc", ".cu"})


def _made(output: str) -> tuple[int | None, int]:
    """Return how many calls were made, if they came to their end, and how many there was no time for."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"made": '):
            counts = json.loads(line)
            return counts["made"], counts["left_out"]
    return None, 0


def _finding(sighting: Sighting, kind: str) -> Finding:
    tool = SANITIZERS[kind].finds if kind in SANITIZERS else GPU_TOOLS[kind]
    call = f", in the call with {sighting.call}" if sighting.call else ""
    if sighting.source is None:
        return Finding(
            f"{sighting.what}{call}; no line of the kernel's files is in its stack", hint=f"It finds {tool}."
        )
    source = sighting.source
    shown = f"\n    {source.line} | {source.text}" if source.text else ""
    return Finding(f"{source.file.name}:{source.line}: {sighting.what}{call}{shown}", hint=f"It finds {tool}.")
