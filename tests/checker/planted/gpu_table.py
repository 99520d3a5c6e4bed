"""Checks the defects planted into CUDA and Triton kernels and their twins over several seeds, and prints what finds each.

    PYTHONPATH=src python tests/checker/planted/gpu_table.py --seeds 0 1 2 3 4 --json FILE
    PYTHONPATH=src python tests/checker/planted/gpu_table.py --interpret --processes 2       # without a GPU

A row is one defect: under which names it was found, and what the check says of the operator without it. Several processes
share the GPU. With `--interpret` the Triton kernels run on the CPU, through Triton's interpreter; a few defects do not show
there. Exits with 1 if a defect is missed or has a wrong name, or a twin is blamed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from opsmith.spec.definition import Device
from opsmith.toolchain.processor import processor_name

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

__all__ = ["main"]

# A check works on one property after the other, and waits for the GPU a part of the time.
_PROCESSES = 14


@dataclass(frozen=True)
class Task:
    """A check: which operator, with its defect or without, and the seed of its inputs."""

    name: str
    planted: bool
    seed: int


@dataclass(frozen=True)
class Way:
    """How all of them are checked: where, by which properties, and until when one may start."""

    device: Device
    named_only: bool
    until_s: float


def main() -> int:
    """Check, print the table, write the JSON, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--json", type=Path, help="where to write all results")
    parser.add_argument("--rows", nargs="+", help="names of defects; all by default")
    parser.add_argument("--interpret", action="store_true", help="Triton kernels alone, through Triton's interpreter")
    parser.add_argument("--named-only", action="store_true", help="look only for what must find each defect")
    parser.add_argument("--processes", type=int, default=_PROCESSES)
    parser.add_argument("--minutes", type=float, default=7.0, help="start nothing after that time")
    options = parser.parse_args()
    started = time.monotonic()
    # Each process has one core: what compares results on the CPU must not start sixteen threads in all of them.
    os.environ["OMP_NUM_THREADS"] = "1"
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"
    else:
        _build()
        print(f"built after {time.monotonic() - started:.0f} s", flush=True)
    device: Device = "cpu" if options.interpret else "cuda"
    tasks = _tasks(options.rows, options.seeds, device)
    check = partial(_check, way=Way(device, options.named_only, started + 60 * options.minutes))
    # Not forked: what is forked from a process with a GPU's driver in use could not use it.
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(check, tasks))
    rows = _judged(results, device)
    _print(rows)
    wrong = [row["name"] for row in rows if not row["ok"]]
    checked = sum(not result.get("skipped") for result in results)
    print(f"{len(rows) - len(wrong)} of {len(rows)} defects have their name and their twins are not blamed")
    print(f"{checked} of {len(results)} checks, {time.monotonic() - started:.0f} s")
    if options.json:
        machine = processor_name() if options.interpret else _gpu_name()
        found = {"machine": {"name": machine}, "rows": rows, "checks": results}
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 1 if wrong else 0


def _tasks(names: list[str] | None, seeds: list[int], device: Device) -> list[Task]:
    """Return all checks, the first seed of all operators before the second."""
    from gpu_rows import TWO_GPUS, rows_on

    rows = [row for row in rows_on(device) if not names or row.name in names]
    if device == "cuda" and _gpus() < 2:
        rows = [row for row in rows if row.named not in TWO_GPUS]
    return [Task(row.name, planted, seed) for seed in seeds for row in rows for planted in (True, False)]


def _gpus() -> int:
    return len(_ask_driver("-L"))


def _gpu_name() -> str:
    return ", ".join(dict.fromkeys(_ask_driver("--query-gpu=name", "--format=csv,noheader")))


def _ask_driver(*arguments: str) -> list[str]:
    return subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, check=False).stdout.splitlines()


def _build() -> None:
    """Build what checks load, once, before all processes ask for it."""
    code = """
from gpu_rows import ALL_ROWS
from load import module
from opsmith.checker.memory.guard import why_unguarded
from opsmith.runtime.bridge import find_bridge
from opsmith.runtime.operator import load_module
for file in dict.fromkeys(row.file for row in ALL_ROWS):
    for planted in (True, False):
        load_module(module(file, planted).__name__)
find_bridge()
why_unguarded("cpu")
"""
    path = os.pathsep.join([str(_HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False)
    if done.returncode != 0:
        sys.exit("the kernels cannot be built")


def _check(task: Task, way: Way) -> dict[str, Any]:
    """Check an operator, and return what was found as plain data."""
    if time.monotonic() > way.until_s:
        return {**asdict(task), "skipped": True}
    from gpu_rows import properties_of, rows_on, subject

    from opsmith.checker.run import CheckPlan, run_check

    row = next(row for row in rows_on(way.device) if row.name == task.name)
    items = [item for item in properties_of(row) if item.name == row.named or not way.named_only]
    started = time.perf_counter()
    try:
        plan = CheckPlan(tuple(items), row.dtypes, processes=1)
        report = run_check(subject(row, way.device, planted=task.planted, seed=task.seed), plan)
    except Exception as error:
        return {**asdict(task), "error": f"{type(error).__name__}: {error}"}
    return {
        **asdict(task),
        "seconds": round(time.perf_counter() - started, 2),
        "found": {result.name: result.outcome.findings[0].message for result in report.failures},
        "errors": {result.name: result.outcome.note for result in report.results if result.outcome.is_error},
        "not_run": {
            result.name: result.outcome.note
            for result in report.results
            if result.outcome.state == "not run" and not result.outcome.is_error
        },
        "times": {result.name: round(result.outcome.seconds, 2) for result in report.results},
    }


def _judged(results: list[dict[str, Any]], device: Device) -> list[dict[str, Any]]:
    """Return a row for each defect: how often it and its twin were checked, and under which names they were found."""
    from gpu_rows import rows_on

    rows = []
    for row in rows_on(device):
        own = [result for result in results if result["name"] == row.name and not result.get("skipped")]
        if not own:
            continue
        defects, twins = ([one for one in own if one["planted"] is planted] for planted in (True, False))
        right = [one for one in defects if _is_right(one, row.named, row.also)]
        blamed = [one for one in twins if not _is_blameless(one)]
        rows.append(
            {
                "name": row.name,
                "named": row.named,
                "defect": row.defect,
                "right": len(right),
                "checked": len(defects),
                "found": sorted({other for one in defects for other in one.get("found", {})}),
                "twins": len(twins),
                "blamed": len(blamed),
                "seconds": round(sum(one.get("seconds", 0.0) for one in own) / len(own), 1),
                "ok": len(right) == len(defects) and not blamed,
            }
        )
    return rows


def _is_right(result: dict[str, Any], named: str, also: tuple[str, ...]) -> bool:
    """Whether the defect has its name, and no name that does not follow from it."""
    if "error" in result or result["errors"]:
        return False
    return named in result["found"] and result["found"].keys() <= {named, *also}


def _is_blameless(result: dict[str, Any]) -> bool:
    return not ("error" in result or result["errors"] or result["found"])


def _print(rows: list[dict[str, Any]]) -> None:
    print(f"  {'defect':18} {'must be named':17} {'right':>6}  {'found under':42} {'twins blamed':>12} {'seconds':>8}")
    for row in rows:
        right, blamed = f"{row['right']}/{row['checked']}", f"{row['blamed']}/{row['twins']}"
        found = ", ".join(row["found"]) or "–"
        mark = " " if row["ok"] else "!"
        print(f"{mark} {row['name']:18} {row['named']:17} {right:>6}  {found:42} {blamed:>12} {row['seconds']:8.1f}")


if __name__ == "__main__":
    sys.exit(main())
