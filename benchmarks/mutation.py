"""Mutates the CPU kernels of the library's operators and records how many of the mutants `opsmith check` finds.

    python benchmarks/mutation.py [NAME ...] [--mutants 30] [--seconds 600] [--output benchmarks/results/mutation.json]

Each operator is mutated in a process of its own, headers included, and its report goes to the file at once: a run that was
stopped goes on where it was, and operators that the file has with as many mutants are not mutated again. `python
benchmarks/tables.py` then makes the tables of docs/mutation.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from opsmith.benchmark.machine import this_machine
from opsmith.subject.find import find_operators

# Functions that only gather others' results, and operators without a kernel for the CPU, are not here.
MODULES = (
    "add2",
    "sigmoid",
    "sigmoid_focal_loss",
    "lltm",
    "mlp",
    "nms",
    "bias_act",
    "upfirdn2d",
    "filtered_lrelu",
    "roi_align",
    "roi_pool",
    "deform_conv2d",
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


def mutate(path: str, mutants: str, seconds: float, seed: int) -> dict[str, Any] | None:
    """Return the report of one operator, or None, with the reason on stderr, if there is none."""
    argv = [sys.executable, "-m", "opsmith", "check", path, "--mutate", "--mutate-headers", "--json"]
    argv += ["--mutants", mutants, "--seconds", str(seconds), "--seed", str(seed), "--device", "cpu"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{path}: {done.stderr.strip()[-600:]}", file=sys.stderr, flush=True)
        return None
    (report,) = json.loads(done.stdout)["operators"]
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
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "mutation.json")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"operators": []}
    if arguments.output.is_file():
        result = json.loads(arguments.output.read_text(encoding="utf-8"))
    asked = {"mutants": arguments.mutants, "seed": arguments.seed}
    result = {"machine": this_machine("cpu").as_json(), "asked": asked, "operators": result["operators"]}
    known = {(report["path"], report["asked"]["mutants"], report["seed"]) for report in result["operators"]}
    for path in operators(arguments.names):
        if (path, arguments.mutants, arguments.seed) in known:
            continue
        began = time.monotonic()
        report = mutate(path, arguments.mutants, arguments.seconds, arguments.seed)
        if report is None:
            continue
        report |= {"asked": asked, "date": datetime.now(timezone.utc).isoformat(timespec="seconds")}
        others = [other for other in result["operators"] if other["path"] != path]
        result["operators"] = sorted([*others, report], key=lambda item: item["path"])
        result["date"] = report["date"]
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"{path}: {report['score']} % of {report['planted']}, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
