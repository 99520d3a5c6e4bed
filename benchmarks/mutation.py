"""Mutates the CPU kernels of the library's operators and records how many of the mutants `opsmith check` finds.

    python benchmarks/mutation.py [NAME ...] [--mutants 30] [--seconds 600] [--parallel 1] [--output FILE]

Each operator is mutated in a process of its own, headers included, and its report goes to the file at once: a run that was
stopped goes on where it was, and operators that the file has with as many mutants are not mutated again. `python
benchmarks/tables.py` then makes the tables of docs/results/mutation.md.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from opsmith.benchmark.machine import this_machine
from opsmith.subject.find import find_operators

# What takes longest comes first, so that it runs beside the others.
MODULES = (
    "deform_conv2d",
    "filtered_lrelu",
    "roi_align",
    "ms_deform_attn",
    "linear_assignment",
    "boxes",
    "paste_masks",
    "lltm",
    "mlp",
    "nms",
    "upfirdn2d",
    "bias_act",
    "roi_pool",
    "sigmoid_focal_loss",
    "sigmoid",
    "add2",
)
# What a table and a reader need of a mutant that was found.
_KEPT_OF_FOUND = ("kind", "file", "line", "function", "fate", "found_by", "seconds")


def operators(names: list[str]) -> Iterator[str]:
    """Yield the operators to mutate, as `opsmith check` takes them."""
    for module in MODULES:
        for operator in find_operators(f"opsmith.ops.{module}"):
            definition = operator.definition
            if "cpu" in definition.kernels and (not names or definition.name in names or module in names):
                yield f"{definition.module}::{definition.name}"


def mutate(path: str, asked: dict[str, Any], cores: set[int]) -> dict[str, Any] | None:
    """Return the report of one operator, or None, with the reason on stderr, if there is none."""
    argv = [sys.executable, "-m", "opsmith", "check", path, "--mutate", "--mutate-headers", "--json"]
    argv += ["--device", "cpu", "--mutants", asked["mutants"], "--seed", str(asked["seed"])]
    argv += ["--seconds", str(asked["seconds"])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, cores)
        output, errors = process.communicate()
    if process.returncode != 0:
        print(f"{path}: {errors.strip()[-600:]}", file=sys.stderr, flush=True)
        return None
    (report,) = json.loads(output)["operators"]
    for mutant in report["mutants"]:
        if mutant["fate"] != "survived":
            for key in mutant.keys() - set(_KEPT_OF_FOUND):
                del mutant[key]
    return {"path": path, **report}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators or modules (default: all)")
    parser.add_argument("--mutants", default="30", help="for each operator, or all (default: 30)")
    parser.add_argument("--seconds", type=float, default=600, help="the most time for an operator (default: 600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--parallel", type=int, default=1, help="operators at a time, which share the cores (default: 1)"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "mutation.json")
    arguments = parser.parse_args()
    asked = {"mutants": arguments.mutants, "seed": arguments.seed, "seconds": arguments.seconds}
    known = _known(arguments.output)
    left = [path for path in operators(arguments.names) if known.get(path, {}).get("asked") != asked]
    cores = sorted(os.sched_getaffinity(0))
    groups: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    for number in range(arguments.parallel):
        groups.put(set(cores[number :: arguments.parallel]))
    lock, machine = threading.Lock(), this_machine("cpu").as_json()

    def run(path: str) -> None:
        group, began = groups.get(), time.monotonic()
        try:
            report = mutate(path, asked, group)
        finally:
            groups.put(group)
        if report is None:
            return
        with lock:
            date = datetime.now(timezone.utc).isoformat(timespec="seconds")
            known[path] = {"asked": asked, "date": date, "machine": machine, **report}
            result = {"date": date, "operators": [known[name] for name in sorted(known)]}
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            taken_s = time.monotonic() - began
            print(f"{path}: {report['score']} % of {report['planted']} mutants, {taken_s:.0f} s", flush=True)

    with ThreadPoolExecutor(arguments.parallel) as pool:
        list(pool.map(run, left))


def _known(file: Path) -> dict[str, dict[str, Any]]:
    """Return the reports that a file has, by operator."""
    if not file.is_file():
        return {}
    return {report["path"]: report for report in json.loads(file.read_text(encoding="utf-8"))["operators"]}


if __name__ == "__main__":
    main()
