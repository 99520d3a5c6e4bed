"""Measures how far `opsmith bench` can be trusted: an operator against itself, and a planted slowdown of 5 %.

    python benchmarks/bench_trust.py [--device cpu] [--runs 20] [--output benchmarks/results/bench_trust.json]

Each run is a full benchmark with a second competitor, `again`, which is the operator itself. The correct verdict for it is
"no difference" at every size and phase, and 19 of 20 runs have to give it. The planted slowdown is a kernel that moves 21
numbers instead of 20. On a GPU, where memory timings are stable enough, every run has to find it; on the CPU it is only
counted. Exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

# Nothing is built in the background of what is timed.
os.environ.setdefault("OPSMITH_BRIDGE", "wait")
os.environ.setdefault("OPSMITH_PCH", "off")

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.benchmark.competitors import Competitor
from opsmith.benchmark.machine import this_machine
from opsmith.benchmark.options import BenchOptions
from opsmith.benchmark.result import BenchReport
from opsmith.benchmark.run import run_bench
from opsmith.benchmark.statistics import Verdict
from opsmith.ops.sigmoid import sigmoid
from opsmith.subject.subject import subject_of

# Of all runs, so many must read "no difference" at each size and phase.
EQUAL = 19 / 20
PLANTED_FACTOR = 21 / 20
# Numbers that the planted operators write, in twenties: beyond every cache, so that the bytes are what takes the time.
PLANTED_SIZES = {"cpu": 1 << 18, "cuda": 1 << 22}
SIZES = {"cpu": (1 << 10, 1 << 16, 1 << 21), "cuda": (1 << 12, 1 << 20, 1 << 26)}


def twenty_of(x: Float[Tensor, "21*N"]) -> Float[Tensor, "20*N"]:
    """Return twice the first twenty twenty-firsts of x, and touch nothing else."""
    return torch.mul(x[: x.shape[0] // 21 * 20], 2)


def all_of(x: Tensor) -> Tensor:
    """Return the same, but compute it for all of x: 5 % more bytes are read and written."""
    return torch.mul(x, 2)[: x.shape[0] // 21 * 20]


def same(device: str, runs: int, seconds: float) -> Iterator[BenchReport]:
    subject = subject_of(sigmoid, devices=(device,))
    sizes = tuple({"shape": size} for size in SIZES[device])
    for seed in range(runs):
        yield run_bench(
            subject,
            device,
            BenchOptions(
                phases=("forward", "both"),
                against=("eager",),
                dtypes=("float32",),
                sizes=sizes,
                seconds=seconds,
                seed=seed,
            ),
            extra=(Competitor("again", subject.call),),
        )


def planted(device: str, runs: int, seconds: float) -> Iterator[BenchReport]:
    subject = subject_of(twenty_of, reference=twenty_of, devices=(device,))
    for seed in range(runs):
        yield run_bench(
            subject,
            device,
            BenchOptions(
                phases=("forward",),
                against=("eager",),
                dtypes=("float32",),
                sizes=({"N": PLANTED_SIZES[device]},),
                seconds=seconds,
                seed=seed,
            ),
            extra=(Competitor("slower", all_of),),
        )


def verdicts(reports: list[BenchReport], name: str) -> dict[str, list[Verdict]]:
    """Return the verdicts on a competitor by size, phase and clock; on the CPU there is one clock.

    A busy machine may leave no time for a size; that is no verdict.
    """
    found: dict[str, list[Verdict]] = {}
    for report in reports:
        for timing in report.timings:
            if timing.competitor == name:
                place = f"{timing.workload}, {timing.phase}"
                if timing.verdict is None or timing.wall_verdict is None:
                    print(f"{name}, {place}: {timing.error}", file=sys.stderr)
                    continue
                found.setdefault(place, []).append(timing.verdict)
                if report.machine.device == "cuda":
                    found.setdefault(f"{place}, by the clock", []).append(timing.wall_verdict)
    return found


def row(found: list[Verdict]) -> dict[str, Any]:
    return {
        "runs": len(found),
        **{kind: sum(verdict.kind == kind for verdict in found) for kind in ("equal", "faster", "slower")},
        "ratios": [asdict(verdict.ratio) for verdict in found],
        "noise": [verdict.noise for verdict in found],
    }


def run(what: str, made: Iterator[BenchReport]) -> list[BenchReport]:
    reports = []
    for number, report in enumerate(made, 1):
        reports.append(report)
        print(f"{what}: run {number}, {report.seconds:.1f} s {'; '.join(report.warnings)}", file=sys.stderr, flush=True)
    return reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--planted-runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run of the same; a planted one takes half")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    started = time.perf_counter()
    equal = run("same", same(arguments.device, arguments.runs, arguments.seconds))
    slower = run("planted", planted(arguments.device, arguments.planted_runs, arguments.seconds / 2))
    rows = {place: row(found) for place, found in verdicts(equal, "again").items()}
    by_clock = verdicts(slower, "slower")
    planted_rows = {place: row(found) for place, found in by_clock.items()}
    # A run that a busy machine left no time for has said nothing wrong; but half of them must have said something.
    most_wrong = round((1 - EQUAL) * arguments.runs)
    is_equal = bool(rows) and all(
        one["runs"] - one["equal"] <= most_wrong and one["runs"] >= arguments.runs / 2 for one in rows.values()
    )
    # By the GPU's own clock; that of the host has the launch in it.
    is_found = all(one["faster"] == one["runs"] for place, one in planted_rows.items() if "clock" not in place)
    report = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": this_machine(arguments.device).as_json(),
        "torch": str(torch.__version__),
        "opsmith": opsmith.__version__,
        "python": platform.python_version(),
        "device": arguments.device,
        "seconds": round(time.perf_counter() - started, 1),
        "same": {"operator": "opsmith.sigmoid", "target": EQUAL, "is_met": is_equal, "rows": rows},
        "planted": {"factor": PLANTED_FACTOR, "is_found": is_found, "rows": planted_rows},
        "warnings": sorted({text for one in (*equal, *slower) for text in one.warnings}),
    }
    for place, one in rows.items():
        print(f"the same, {place}: no difference in {one['equal']} of {one['runs']}")
    for place, one in planted_rows.items():
        middles = sorted(ratio["middle"] for ratio in one["ratios"])
        found = f"found in {one['faster']} of {one['runs']}, {middles[0]:.3f} to {middles[-1]:.3f} times"
        print(f"5 % more bytes, {place}: {found}")
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if not is_equal or (arguments.device == "cuda" and not is_found):
        sys.exit(1)


if __name__ == "__main__":
    main()
