"""Measures the overhead of a call: opsmith against torch.add, torch.library.custom_op and other operators.

    python benchmarks/call_time.py [--device cpu] [--rounds 51] [--output benchmarks/results/call_time.json]

Tensors have 8 elements, so the kernel's time is negligible. In each round every contender runs for some milliseconds, in an
order that rotates from round to round, and ratios are formed within the round. `--device cuda` measures the host's time:
nothing waits for the GPU inside the timed loop, and no more calls are queued than the driver accepts without waiting. The
last part compares the memory of an LLTM training step with a hand-written torch.autograd.Function.

OPSMITH_BRIDGE=off times the gradient path in Python.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "call_time"))
# What is measured must not depend on whether a build in the background has come to its end.
os.environ.setdefault("OPSMITH_BRIDGE", "wait")

from contenders import ROWS, Contender, contenders  # noqa: E402
from lltm_memory import SIZES, measure  # noqa: E402

import opsmith  # noqa: E402
from opsmith.benchmark.statistics import median_interval  # noqa: E402
from opsmith.ops.lltm import lltm_cell  # noqa: E402
from opsmith.toolchain.processor import processor_name  # noqa: E402

ROUND_SECONDS = 0.005
# A GPU's queue holds about a thousand launches; a call here makes at most three.
MOST_QUEUED_CALLS = 200

# Row -> the most that ours may take of each baseline; by device where that differs. Of several baselines in one entry the
# fastest counts.
Targets = tuple[tuple[tuple[str, ...], float], ...]
TARGETS: dict[str, dict[str, Targets]] = {
    "cpu": {
        "no gradient": ((("torch.add",), 1.25), (("torch.library.custom_op",), 1 / 5)),
        "gradient, forward": ((("torch.add",), 1.2), (("torch.library.custom_op",), 1 / 5)),
        "gradient, forward and backward": ((("torch.add",), 1.1), (("torch.library.custom_op",), 1 / 1.5)),
        "eight arguments": ((("torch.native_group_norm", "torch.native_batch_norm"), 1.5),),
    },
    "cuda": {
        "no gradient": ((("torch.add",), 1.2), (("torch.library.custom_op",), 1 / 4)),
        "gradient, forward": ((("torch.add",), 1.2), (("torch.library.custom_op",), 1 / 4)),
        "gradient, forward and backward": ((("torch.add",), 1.2),),
        "eight arguments": ((("torch.native_group_norm", "torch.native_batch_norm"), 1.5),),
    },
}
MEMORY_TARGET = 1.0
BUILD_TARGET_S, LOAD_TARGET_S = 10.0, 0.005


def make_loop(contender: Contender, device: str) -> Callable[[int], float]:
    """Return a function that makes some calls and returns the seconds that one took."""
    timer = timeit.Timer(contender.statement, globals=dict(contender.names))
    if device == "cpu":
        return lambda count: timer.timeit(count) / count

    def run(count: int) -> float:
        seconds, left = 0.0, count
        while left > 0:
            batch = min(left, MOST_QUEUED_CALLS)
            torch.cuda.synchronize()
            seconds += timer.timeit(batch)
            left -= batch
        return seconds / count

    return run


def time_row(row: str, device: str, rounds: int) -> dict[str, object]:
    """Return what each contender takes, and what ours takes of each baseline."""
    loops = {name: make_loop(contender, device) for name, contender in contenders(row, device).items()}
    counts = {}
    for name, loop in loops.items():
        loop(200)
        counts[name] = max(1, round(ROUND_SECONDS / loop(200)))
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    names = list(loops)
    for index in range(rounds):
        # Each starts equally often, so that neither the first place nor a drift of the machine's speed favours one.
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(loops[name](counts[name]))
    ours = seconds["opsmith"]
    result: dict[str, object] = {
        "what": ROWS[row],
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "of_baseline": {
            name: spread([mine / other for mine, other in zip(ours, values, strict=True)])
            for name, values in seconds.items()
            if name != "opsmith"
        },
        "rounds": rounds,
        "calls_per_round": counts,
    }
    targets = []
    for baselines, most in TARGETS[device][row]:
        baseline = min(baselines, key=lambda name: statistics.median(seconds[name]))
        ratio = statistics.median(mine / other for mine, other in zip(ours, seconds[baseline], strict=True))
        targets.append({"baseline": baseline, "most": most, "found": ratio, "met": ratio <= most})
    return {**result, "targets": targets}


def time_memory(device: str) -> list[dict[str, object]]:
    rows = []
    for size in SIZES:
        found = measure(size, device)
        ratio = found["opsmith"].peak_bytes / found["by hand"].peak_bytes
        rows.append(
            {
                **dict(zip(("steps", "batch", "input", "state"), size, strict=True)),
                **{name: asdict(memory) for name, memory in found.items()},
                "target": {"baseline": "by hand", "most": MEMORY_TARGET, "found": ratio, "met": ratio <= MEMORY_TARGET},
            }
        )
    return rows


def time_bridge(rounds: int = 5) -> dict[str, object]:
    """Return what it takes to build the bridge into an empty store, and to load it in a fresh process."""
    builds, loads = [], []
    with tempfile.TemporaryDirectory() as store:
        environment = {**os.environ, "OPSMITH_BRIDGE": "wait", "PYTHONPATH": os.pathsep.join(sys.path)}
        for index in range(rounds):
            here = {**environment, "OPSMITH_CACHE_DIR": f"{store}/{min(index, 1)}"}
            # Built twice, because it takes so long; loaded in every round.
            for program, seconds in ((BUILD, builds), (LOAD, loads)):
                if program is BUILD and index > 1:
                    continue
                done = subprocess.run(
                    [sys.executable, "-c", program], env=here, capture_output=True, text=True, check=True
                )
                seconds.append(float(done.stdout))
    found = {"build_s": span(builds), "load_s": span(loads)}
    targets = {"build_s": BUILD_TARGET_S, "load_s": LOAD_TARGET_S}
    met = {
        name: statistics.median(values) <= targets[name] for name, values in (("build_s", builds), ("load_s", loads))
    }
    return {**found, "targets": targets, "met": met}


# What torch and the toolchain's own imports take is not the bridge's.
BUILD = """
import time, torch
from opsmith.runtime.bridge_library import build_bridge
started = time.perf_counter()
build_bridge()
print(time.perf_counter() - started)
"""
LOAD = """
import time, torch
import opsmith.runtime.bridge_library
import opsmith.runtime.existing
from opsmith.runtime.bridge import find_bridge
started = time.perf_counter()
assert find_bridge() is not None
print(time.perf_counter() - started)
"""


def span(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "count": len(values)}


def spread(values: list[float]) -> dict[str, float]:
    found = median_interval(values)
    return {"median": found.middle, "low": found.low, "high": found.high, "min": min(values), "count": len(values)}


def describe_machine(device: str) -> dict[str, object]:
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "system": platform.platform(),
    }


def show(row: str, result: dict[str, object]) -> None:
    print(f"{row}")
    for name, taken in result["seconds"].items():
        line = f"  {name:26} {taken['median'] * 1e6:8.3f} us [{taken['low'] * 1e6:.3f}, {taken['high'] * 1e6:.3f}]"
        of = result["of_baseline"].get(name)
        print(line + (f"   opsmith takes {of['median']:.3f} [{of['low']:.3f}, {of['high']:.3f}] of it" if of else ""))
    for target in result["targets"]:
        verdict = "met" if target["met"] else "NOT met"
        print(
            f"  target: at most {target['most']:.2f} of {target['baseline']}: {verdict} ({target['found']:.3f})",
            flush=True,
        )


def add_memory_and_bridge(report: dict[str, object], device: str) -> None:
    report["memory"] = time_memory(device)
    for row in report["memory"]:
        ours, theirs = row["opsmith"], row["by hand"]
        print(
            f"LLTM, {row['steps']} steps of {row['batch']} x ({row['input']}, {row['state']}): "
            f"peak {ours['peak_bytes']:,} B, by hand {theirs['peak_bytes']:,} B; "
            f"saved {ours['saved_bytes']:,} B, by hand {theirs['saved_bytes']:,} B"
        )
    report["bridge"] = time_bridge()
    built, loaded = report["bridge"]["build_s"]["median"], report["bridge"]["load_s"]["median"]
    print(f"the bridge: built in {built:.1f} s, loaded in {loaded * 1e3:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--calls-only", action="store_true", help="leave out the memory and the bridge")
    parser.add_argument("--note", help="a sentence about the machine's state, which is kept with the results")
    arguments = parser.parse_args()
    lltm_cell.load()
    torch.set_num_threads(1)
    report: dict[str, object] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(arguments.device),
        "torch": torch.__version__,
        "opsmith": opsmith.__version__,
        "python": platform.python_version(),
        "device": arguments.device,
        "gradient_path": "Python" if os.environ["OPSMITH_BRIDGE"] == "off" else "C++",
        "interval": "of the median, 95 %",
        **({"note": arguments.note} if arguments.note else {}),
        "rows": {},
    }
    for row in ROWS:
        gc.collect()
        result = time_row(row, arguments.device, arguments.rounds)
        report["rows"][row] = result
        show(row, result)
    if not arguments.calls_only:
        add_memory_and_bridge(report, arguments.device)
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
