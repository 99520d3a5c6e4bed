"""Says where the time goes when `opsmith judge` judges calls of gigabytes on a GPU.

    python benchmarks/judge_large.py [softmax-1 relu-4] [--by host gpu] [--no-operator] [--output FILE]

A case is a function and the GiB of its input in float32; the candidate calls what the reference calls. `host` has tensors
cross by the host's memory, as where the driver cannot share a GPU's. Parts are the judge's own seconds without what they
call of one another: making inputs, carrying them there, calls, looking whether they changed, carrying results here, and
computing and comparing what is expected. The rest is Python's, and waiting.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from opsmith.judging import areas, load_task, posed, quality, run, trial
from opsmith.judging.candidate import read_candidate
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.cell import Cell
from opsmith.judging.hooks import Hooks
from opsmith.judging.making import _Maker
from opsmith.judging.options import JudgeOptions
from opsmith.judging.result import Judgement
from opsmith.judging.run import run_judge
from opsmith.judging.staging import Staging
from opsmith.judging.timing import race

_COLUMNS = 1 << 14
_FUNCTIONS = {"softmax": "torch.softmax(x, dim=-1)", "relu": "torch.relu(x)"}
_TASK = """import torch


class {name}(torch.nn.Module):
    def forward(self, x):
        return {call}


def get_inputs():
    return [torch.randn({rows}, {columns})]


def get_init_inputs():
    return []
"""
# Functions whose time is told, by where they are looked up.
_PARTS: tuple[tuple[Any, str, str], ...] = (
    (_Maker, "__call__", "making inputs"),
    (Cell, "load", "loading: the rest"),
    (Staging, "put", "loading: carrying"),
    (Cell, "run", "calls"),
    (Cell, "soil", "soiling"),
    (Cell, "changed_inputs", "inputs that changed"),
    (Cell, "give", "results: the rest"),
    (Staging, "copied", "results: carrying"),
    (CandidateProcess, "hold_to_limits", "looking at limits"),
    (trial.Trial, "expected", "expected results"),
    (trial.Trial, "wrong", "comparing, and what is expected of parts"),
    (run, "quality_of", "the task: the rest"),
    (quality, "rows_of", "rows"),
    (posed, "are_same", "comparing bits"),
    (race, "time_here", "times of rivals"),
)


class Profile:
    """Seconds and calls of parts, each without the parts that it has called."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._inner: list[float] = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time is told."""

        def call(*arguments: Any, **more: Any) -> Any:
            begun = time.perf_counter()
            self._inner.append(0.0)
            try:
                return function(*arguments, **more)
            finally:
                torch.cuda.synchronize()
                taken = time.perf_counter() - begun
                self.seconds[name] += taken - self._inner.pop()
                self.calls[name] += 1
                self._inner[-1] += taken

        return call

    @contextmanager
    def on(self) -> Iterator[None]:
        """Tell the time of all parts in a block."""
        before = [(holder, name, getattr(holder, name)) for holder, name, _ in _PARTS]
        for (holder, name, part), (_, _, function) in zip(_PARTS, before, strict=True):
            setattr(holder, name, self.timed(part, function))
        try:
            yield
        finally:
            for holder, name, function in before:
                setattr(holder, name, function)


class Stages:
    """Seconds from one stage of a judgement to the next."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._name, self._begun = "start", time.perf_counter()

    def begin(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[self._name] += now - self._begun
        self._name, self._begun = name, now


def judged(case: str, by: str, options: JudgeOptions) -> dict[str, Any]:
    """Return what a judgement of a case says, and what it took."""
    name, _, gib = case.partition("-")
    rows = int(float(gib) * 2**30) // (4 * _COLUMNS)
    made: list[bool] = []
    shared = areas.new_gpu_area

    def new_passage() -> Any:
        found = shared() if by == "gpu" else None
        made.append(found is not None)
        return found

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{one}.py") for one in ("task", "candidate")]
        for path, what in zip(paths, ("Model", "ModelNew"), strict=True):
            path.write_text(_TASK.format(name=what, call=_FUNCTIONS[name], rows=rows, columns=_COLUMNS))
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        profile, stages = Profile(), Stages()
        begun = time.perf_counter()
        with patch.object(areas, "new_gpu_area", new_passage), profile.on():
            task = load_task(paths[0], examples=options.examples, seconds=options.load_seconds)
            judgement: Judgement = run_judge(task, read_candidate(paths[1]), options, Hooks(watch=stages.begin))
        wall_s = time.perf_counter() - begun
        stages.begin("end")
    return {
        "case": case,
        "by": by,
        "is_shared": made,
        "seconds": wall_s,
        "ok": judgement.ok,
        "posed": str(judgement.as_posed.state),
        "operator": str(judgement.as_operator.state),
        "charges": [str(one) for one in (*judgement.as_posed.charges, *judgement.task_charges)],
        "notes": list(judgement.notes),
        "speeds": [[one.median_s, one.ratio, one.ratio_low, one.ratio_high] for one in judgement.speeds],
        "stages": dict(stages.seconds),
        "parts": dict(sorted(profile.seconds.items(), key=lambda item: -item[1])),
        "calls": dict(profile.calls),
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "device": torch.cuda.get_device_name(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["softmax-1", "relu-4"])
    parser.add_argument("--by", nargs="+", default=["gpu"], choices=("gpu", "host"))
    parser.add_argument("--no-operator", action="store_true")
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("opsmith.judging").setLevel(logging.DEBUG)  # why a GPU's memory is not shared, where it is not
    options = JudgeOptions(device="cuda", operator=not given.no_operator, seconds=given.seconds)
    rows = []
    for case in given.cases:
        for by in given.by:
            try:
                rows.append(judged(case, by, options))
            except Exception as error:  # the others are told all the same
                rows.append({"case": case, "by": by, "error": f"{type(error).__name__}: {error}"})
            print(json.dumps(rows[-1], indent=1), flush=True)
            if given.output is not None:
                given.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
