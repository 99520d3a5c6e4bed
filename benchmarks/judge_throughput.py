"""Counts how many candidates `opsmith judge --batch` judges in an hour on one GPU.

    python benchmarks/judge_throughput.py [--count 8] [--beside 4] [--output benchmarks/results/judge_throughput_gpu.json]

The candidates are honest kernels of the judge's suite in Triton, each for a task of its own, `--count` of them: an honest
one takes the longest, since nothing ends its judgement early. A row has what was asked, how many batches ran beside each
other on the GPU, and the judgements an hour of all of them together, tasks read and kernels compiled included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SUITE = HERE.parent / "tests" / "judging" / "suite"
sys.path.append(str(SUITE.parent))

from suite.row import CPU, TRITON, Row  # noqa: E402 -- after the path
from suite.tables import HONEST  # noqa: E402

from turns import record  # noqa: E402

# What is asked, and the options that ask for it. Two that are timed on one GPU at once would have each other's time.
TIMED = {"both verdicts and times": (), "as posed, and times": ("--no-operator",)}
_GPU_GIB = 8
UNTIMED = {"both verdicts": ("--no-time",), "as posed": ("--no-time", "--no-operator")}


def candidates(device: str, count: int) -> list[Row]:
    """Return honest candidates for `count` tasks, the first of each."""
    of_task: dict[str, Row] = {}
    for row in HONEST.values():
        if row.needs == (TRITON if device == "cuda" else CPU) and row.task.endswith(".py"):
            of_task.setdefault(row.task, row)
    return list(of_task.values())[:count]


def write(rows: Sequence[Row], folder: Path) -> None:
    """Write candidates as `opsmith judge --batch` takes them: a file of the task's name."""
    folder.mkdir(parents=True)
    for row in rows:
        (folder / Path(row.task).name).write_text(row.text)


def start(folder: Path, device: str, options: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "opsmith", "judge", str(SUITE / "tasks"), "--batch", str(folder), *options]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [*command, "--device", device], text=True, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def judged(rows: Sequence[Row], device: str, options: Sequence[str], beside: int) -> dict[str, Any]:
    """Return how long `beside` batches of the candidates take together, and what comes of it; all have to be accepted."""
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / str(index) for index in range(beside)]
        for folder in folders:
            write(rows, folder)
        begun_s = time.monotonic()
        batches = [start(folder, device, options) for folder in folders]
        for batch in batches:
            said, _ = batch.communicate()
            if batch.returncode:
                raise SystemExit(said)
        seconds = time.monotonic() - begun_s
        runs = [json.loads((folder / "opsmith-judge.jsonl").read_text().splitlines()[-1])["run"] for folder in folders]
    count = sum(run["judged"] for run in runs)
    return {"judged": count, "seconds": seconds, "per_hour": 3600 * count / seconds}


def rows_of(device: str, count: int, beside: int) -> Iterator[dict[str, Any]]:
    rows = candidates(device, count)
    names = [row.name for row in rows]
    for asked, options in (TIMED | UNTIMED).items():
        for together in (1,) if asked in TIMED or beside == 1 else (1, beside):
            # With the half of the GPU's memory that is usual, batches beside each other would take turns.
            more = ("--gpu-memory-gib", str(_GPU_GIB)) if device == "cuda" and together > 1 else ()
            found = judged(rows, device, (*options, *more), together)
            yield {"asked": asked, "beside": together, "cores": os.cpu_count(), "candidates": names, **found}


def summary(row: dict[str, Any]) -> str:
    """Return a row's line."""
    found = f"{row['judged']} in {row['seconds']:.0f} s, which is {row['per_hour']:.0f} an hour"
    return f"{row['asked']}, {row['beside']} at a time: {found}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--count", type=int, default=8, help="candidates of a batch")
    parser.add_argument("--beside", type=int, default=4, help="batches beside each other where nothing is timed")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    record(rows_of(options.device, options.count, options.beside), options.device, options.output, summary)


if __name__ == "__main__":
    main()
