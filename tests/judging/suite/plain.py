"""A plain judge, as the best-known ones are: one shape, one seed, `allclose` at 1e-2, and the mean of ten timed calls.

It imports the candidate and calls it after the reference with the same inputs, all in one process. It is what the suite's
table is compared with, and nothing to judge with.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch

_TOLERANCE = 1e-2
_WARM_UPS, _TIMED = 3, 10
_SEED = 42
_MEMORY_BYTES = 6 << 30


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def calls_of(task_path: Path, candidate: Any, device: str) -> tuple[Any, Any]:
    """Return the reference and the candidate, each a function without arguments, for the same inputs."""
    if task_path.suffix == ".py":
        task = imported(task_path)
        torch.manual_seed(_SEED)
        inputs = [one.to(device) if isinstance(one, torch.Tensor) else one for one in task.get_inputs()]
        models = []
        for build in (task.Model, candidate.ModelNew):
            torch.manual_seed(_SEED)
            models.append(build(*task.get_init_inputs()).to(device))
        return (lambda: models[0](*inputs)), (lambda: models[1](*inputs))
    from opsmith.judging.packings import packed
    from opsmith.judging.task_files import load_task

    known = load_task(task_path)
    values = [one.to(device) if isinstance(one, torch.Tensor) else one for one in known.inputs(_SEED).values()]
    found = next(getattr(candidate, name) for name in known.entry.names if hasattr(candidate, name))
    function = packed(found, known.entry, device)
    return (lambda: known.reference(*values)), (lambda: function(values))


def tensors(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def is_right(expected: list[Any], found: list[Any]) -> bool:
    return len(expected) == len(found) and all(
        one.shape == other.shape and torch.allclose(one.float(), other.float(), rtol=_TOLERANCE, atol=_TOLERANCE)
        for one, other in zip(expected, found, strict=True)
    )


def mean_ms(call: Any, device: str) -> float:
    for _ in range(_WARM_UPS):
        call()
    if device == "cpu":
        begun = time.perf_counter()
        for _ in range(_TIMED):
            call()
        return (time.perf_counter() - begun) / _TIMED * 1e3
    total = 0.0
    for _ in range(_TIMED):
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        total += start.elapsed_time(end)
    return total / _TIMED


def _judged(task_path: Path, candidate_path: Path) -> dict[str, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    with torch.no_grad():
        reference, candidate = calls_of(task_path, imported(candidate_path), device)
        expected = tensors(reference())
        found = tensors(candidate())
        if device == "cuda":
            torch.cuda.synchronize()
        if not is_right(expected, found):
            return {"verdict": "wrong"}
        return {"verdict": "correct", "eager_ms": mean_ms(reference, device), "ms": mean_ms(candidate, device)}


def answer(task_path: Path, candidate_path: Path) -> dict[str, Any]:
    """Return the verdict, what a candidate raises included."""
    try:
        return _judged(task_path, candidate_path)
    except Exception as error:
        return {"verdict": "error", "message": f"{type(error).__name__}: {error}"[:300]}
