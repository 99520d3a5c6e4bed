"""Says where the time of a detector's training step goes on a GPU: kernels by what they do, of opsmith's and torchvision's.

    python benchmarks/detection_profile.py [--batch 2 --batch 4] [--precision tf32] [--output FILE]

Models, weights, images and precisions are those of benchmarks/detection.py. The times of kernels are CUPTI's, of some steps
after those in which algorithms are chosen and the graph is captured; opsmith's kernels are those of its graph. A step's time
is the host's of steps that are not profiled. Results have every kernel by name, so that the table's kinds can be changed.
"""

# ruff: noqa: E402 -- the package of examples/detection is found after its folder is named

from __future__ import annotations

import argparse
import gc
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples" / "detection")]

from opsmith_detection.config import load_config

from detection import CONFIGS, GPU_CANVAS, ROUNDS, make_batch, on_gpu, training, warmed
from detection_kinds import by_kind
from turns import record

__all__ = ["busy_s", "main"]

COMPETITORS = ("opsmith", "torchvision", "channels_last")
STEPS = 5
NAME_LENGTH = 160


def busy_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of some spans lasts; they begin and end at times in microseconds."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total / 1e6


def profiled(call: Any) -> dict[str, Any]:
    """Return the kernels of a step, by name, and how long the GPU works on at least one."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        for _ in range(STEPS):
            call()
        torch.cuda.synchronize()
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    spans = []
    for event in profile.events() or ():
        if event.device_type != DeviceType.CUDA or event.is_user_annotation:
            continue
        spans.append((event.time_range.start, event.time_range.end))
        one = found[event.name[:NAME_LENGTH]]
        one[0] += (event.time_range.end - event.time_range.start) / 1e6 / STEPS
        one[1] += 1 / STEPS
    kernels = [{"name": name, "seconds": one[0], "launches": one[1]} for name, one in found.items()]
    return {"busy_s": busy_s(spans) / STEPS, "kernels": sorted(kernels, key=lambda one: -float(one["seconds"]))}


def measure(model: str, batch_size: int, precision: str) -> dict[str, Any]:
    """Return a row: a training step of each competitor, one after the other."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    config = load_config(CONFIGS / f"{model}.yaml", [f"solver.precision={precision}", "solver.rate=1e-5"])
    batch = make_batch(batch_size, GPU_CANVAS, config.model, "cuda")
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
