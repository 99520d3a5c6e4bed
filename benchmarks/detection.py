"""Times the detectors of examples/detection against torchvision's: training steps, inference, memory, and waiting.

    python benchmarks/detection.py --device cuda [--batch 2 --batch 8] [--only training] [--output FILE]
    python benchmarks/detection.py --device cpu [--output FILE]

Both have the same weights, which a seed makes, and the same images, on the device already: on a GPU noise of 800 x 1344 with
seven objects each and ResNet-50 with frozen batch norm (configs/mask_rcnn_r50.yaml and retinanet_r50.yaml), on a CPU
the model of configs/digits_small.yaml. Weights are such that both find as many objects as they may.

A training step is forward, losses, backward and SGD, under autocast to bfloat16 or in float32 with TF32. "opsmith" is the
step of examples/detection, a CUDA graph; "opsmith eager" is the same without it, and "opsmith recompute" with
`model.recompute=true`. "torchvision" is its model as its references train it; "channels_last" is that in this format, and
"compiled" has the backbone and the RPN's head compiled as well, which are the parts without shapes that the data give.

A sample is the host's time of some steps, until the GPU is done. Competitors take turns within a round and ratios are formed
within a round, unless the memory is too small for all of them ("alone"). `waits` are calls of cudaStreamSynchronize in a
step, `peak_bytes` the most bytes of tensors at a time, of model, optimizer and activations, and `reserved_bytes` what
PyTorch took from the GPU for them; both beside the competitors that are there already.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from detection_competitors import (
    COMPETITORS,
    CPU_CANVAS,
    GPU_CANVAS,
    Call,
    case_on_cpu,
    case_on_gpu,
    inference,
    training,
)
from turns import compare_samples, on_cpu, on_host, record, take_turns

ROUNDS, STEPS = 9, 3


def on_gpu(call: Call) -> float:
    """Return the seconds of a call until the GPU is done, the mean of some."""
    return on_host(call, STEPS)


def warmed(make: Callable[[], Call]) -> Call:
    """Return a call that has been made often enough for kernels to be chosen and graphs to be captured."""
    call = make()
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    return call


def waits_of(call: Call) -> int:
    """Return how often a call makes the host wait for the GPU's stream."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with warnings.catch_warnings(), torch.profiler.profile(activities=activities) as profile:
        warnings.simplefilter("ignore")
        call()
    return sum(event.count for event in profile.key_averages() if event.key == "cudaStreamSynchronize")


class Measured(NamedTuple):
    """What is known of competitors: their times in turns, of each its memory and waiting, and why others failed."""

    samples: dict[str, list[float]]
    facts: dict[str, dict[str, int]]
    failed: dict[str, str]


def begun(make: Callable[[], Call]) -> tuple[Call, dict[str, int]]:
    """Return a competitor's call, and what it takes beside those that are there: memory and waiting."""
    free_memory()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    call = warmed(make)
    peak_bytes, reserved_bytes = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    facts = {"peak_bytes": peak_bytes - allocated, "reserved_bytes": reserved_bytes - reserved, "waits": waits_of(call)}
    return call, facts


def measure_together(makers: Mapping[str, Callable[[], Call]]) -> Measured:
    """Measure competitors that take turns; raises OutOfMemoryError where the GPU cannot hold them all."""
    calls: dict[str, Call] = {}
    facts: dict[str, dict[str, int]] = {}
    failed: dict[str, str] = {}
    for name, make in makers.items():
        try:
            calls[name], facts[name] = begun(make)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            failed[name] = str(error).splitlines()[0]
    return Measured(take_turns(calls, range(ROUNDS), on_gpu), facts, failed)


def measure_alone(makers: Mapping[str, Callable[[], Call]]) -> Measured:
    """Measure competitors one after the other."""
    found = Measured({}, {}, {})
    for name, make in makers.items():
        try:
            call, found.facts[name] = begun(make)
            found.samples[name] = [on_gpu(call) for _ in range(ROUNDS)]
            del call
        except RuntimeError as error:
            found.facts.pop(name, None)
            found.failed[name] = str(error).splitlines()[0]
    return found


def free_memory() -> None:
    """Give back what nothing holds."""
    gc.collect()
    torch.cuda.empty_cache()


def measure_gpu(phase: str, model: str, batch_size: int, precision: str, without: Sequence[str]) -> dict[str, Any]:
    """Return a row: a phase of a model with a batch in a precision."""
    config, batch = case_on_gpu(model, batch_size, precision)
    kind = training if phase == "training" else inference
    left_out = [*without, *(["opsmith recompute"] if phase == "inference" else [])]
    names = [name for name in COMPETITORS if name not in left_out]
    makers = {name: partial(kind, name, config, GPU_CANVAS, batch, "cuda") for name in names}
    row: dict[str, Any] = {"phase": phase, "model": model, "batch": batch_size, "precision": precision}
    found, row["alone"] = None, False
    with contextlib.suppress(torch.OutOfMemoryError):
        found = measure_together(makers)
    if found is None:  # outside the handler: its traceback holds the competitors
        found, row["alone"] = measure_alone(makers), True
    for name, reason in found.failed.items():
        print(f"{name} is left out: {reason}")
    if found.failed:
        row["failed"] = found.failed
    row |= compare_samples(found.samples)
    row["images_per_second"] = {name: batch_size / row["seconds"][name]["median"] for name in found.samples}
    facts = found.facts
    return row | {
        key: {name: each[key] for name, each in facts.items()} for key in ("peak_bytes", "reserved_bytes", "waits")
    }


def measure_cpu(batch_size: int) -> dict[str, Any]:
    """Return a row: inference of the small configuration."""
    config, batch = case_on_cpu(batch_size)
    names = ("opsmith", "torchvision", "channels_last")
    calls = {name: inference(name, config, CPU_CANVAS, batch, "cpu") for name in names}
    results = {name: [call() for _ in range(3)][-1] for name, call in calls.items()}
    found = {"opsmith": int((results["opsmith"].labels > 0).sum())}
    found["torchvision"] = sum(len(each["labels"]) for each in results["torchvision"])
    row: dict[str, Any] = {"phase": "inference", "model": "digits_small", "batch": batch_size, "precision": "float32"}
    row |= compare_samples(take_turns(calls, range(40), on_cpu))
    return {**row, "detections": found}


def rows_of(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if given.device == "cpu":
        yield from (measure_cpu(size) for size in given.batch or (1, 8))
        return
    models = given.model or ("mask_rcnn_r50", "retinanet_r50")
    for model in models:
        for precision in given.precision or ("bfloat16", "tf32"):
            if given.only != "training":
                yield measure_gpu("inference", model, 1, precision, given.without)
            if given.only != "inference":
                for size in given.batch or (2, 4, 8, 16):
                    yield measure_gpu("training", model, size, precision, given.without)


def summary(row: dict[str, Any]) -> str:
    """Return a line that says how a case went."""
    faster = ", ".join(f"{values['median']:.2f}x {name}" for name, values in row["times_faster"].items())
    line = f"{row['model']} {row['phase']}, batch {row['batch']}, {row['precision']}: "
    line += f"{row['batch'] / row['seconds']['opsmith']['median']:.1f} images/s; {faster}"
    if "waits" in row:
        memory = {name: f"{value / 2**30:.1f} GB" for name, value in row["peak_bytes"].items()}
        line += f"; waits {row['waits']}, memory {memory}{', alone' if row['alone'] else ''}"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, action="append", help="images of a step; several times for several")
    parser.add_argument("--model", action="append", choices=("mask_rcnn_r50", "retinanet_r50"))
    parser.add_argument("--precision", action="append", choices=("bfloat16", "tf32"))
    parser.add_argument(
        "--without", nargs="+", choices=COMPETITORS[1:], default=(), help="compiling takes a minute a case"
    )
    parser.add_argument("--only", choices=("training", "inference"))
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        record(rows_of(given), given.device, given.output, summary)


if __name__ == "__main__":
    main()
