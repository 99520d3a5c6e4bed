"""Says where the time of a detector's training step goes on a GPU: kernels by what they do, of opsmith's and torchvision's.

    python benchmarks/detection_profile.py [--batch 2 --batch 4] [--precision tf32] [--output FILE]

Models, weights, images and precisions are those of benchmarks/detection.py. The times of kernels are CUPTI's, of some steps
after those in which algorithms are chosen and the graph is captured; opsmith's kernels are those of its graph. A step's time
is the host's of steps that are not profiled. Results have every kernel by name, so that the table's kinds can be changed.
"""

from __future__ import annotations

import argparse
import gc
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from detection import ROUNDS, on_gpu, warmed
from detection_competitors import GPU_CANVAS, case_on_gpu, training
from detection_kinds import by_kind
from opsmith.profiler.trace import activities, trace_calls
from turns import record

__all__ = ["busy_s", "main"]

COMPETITORS = ("opsmith", "torchvision", "channels_last")
STEPS = 5
NAME_LENGTH = 160


def busy_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of some spans lasts, each from its begin to its end: streams run beside each other."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def shortened(name: str) -> str:
    """Return the beginning of a kernel's name, as far as its words are whole: with their templates some take thousands."""
    return name if len(name) <= NAME_LENGTH else re.sub(r"[A-Za-z]+$", "", name[: NAME_LENGTH + 1])


def profiled(call: Any) -> dict[str, Any]:
    """Return the kernels of a step, by name, and how long the GPU works on at least one."""
    ran = activities(trace_calls(lambda _: call(), STEPS, "cuda"))
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in ran:
        one = found[shortened(each.name)]
        one[0] += each.seconds
        one[1] += 1
    kernels = [{"name": name, "seconds": one[0] / STEPS, "launches": one[1] / STEPS} for name, one in found.items()]
    busy = busy_s((each.begin_s, each.begin_s + each.seconds) for each in ran) / STEPS
    return {"busy_s": busy, "kernels": sorted(kernels, key=lambda one: -float(one["seconds"]))}


def measure(model: str, batch_size: int, precision: str) -> dict[str, Any]:
    """Return a row: a training step of each competitor, one after the other."""
    config, batch = case_on_gpu(model, batch_size, precision)
    steps: dict[str, dict[str, Any]] = {}
    for name in COMPETITORS:
        gc.collect()
        torch.cuda.empty_cache()
        call = warmed(partial(training, name, config, GPU_CANVAS, batch, "cuda"))
        taken_s = statistics.median(on_gpu(call) for _ in range(ROUNDS))
        steps[name] = {"seconds": taken_s, **profiled(call)}
        del call
    return {"model": model, "batch": batch_size, "precision": precision, "steps": steps}


def rows_of(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for model in given.model or ("mask_rcnn_r50",):
        for precision in given.precision or ("tf32", "bfloat16"):
            for size in given.batch or (2, 4):
                yield measure(model, size, precision)


def summary(row: dict[str, Any]) -> str:
    """Return lines that say where the time of a case goes."""
    lines = [f"{row['model']}, batch {row['batch']}, {row['precision']}:"]
    for name, step in row["steps"].items():
        kinds = ", ".join(f"{kind} {1e3 * seconds:.1f} ms" for kind, (seconds, _) in by_kind(step["kernels"]).items())
        lines.append(f"  {name}: {1e3 * step['seconds']:.1f} ms, of which busy {1e3 * step['busy_s']:.1f} ms: {kinds}")
    return "\n".join(lines)


def main() -> None:
    """Profile all cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, action="append", help="images of a step; several times for several")
    parser.add_argument("--model", action="append", choices=("mask_rcnn_r50", "retinanet_r50"))
    parser.add_argument("--precision", action="append", choices=("bfloat16", "tf32"))
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    record(rows_of(given), "cuda", given.output, summary)


if __name__ == "__main__":
    main()
