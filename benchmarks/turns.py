"""Times contenders that take turns, for the benchmarks of operators on boxes and of deformable convolution and attention.

On a GPU there are three times of a call: the GPU's, between events, of calls that are queued; the host's, of calls that a
program makes; and the GPU's of a CUDA graph, whose replay leaves the host out.

Competitors take turns within a round, in a new random order each time, and ratios are formed within a round, so a drift of
the machine's speed does not favour any of them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import json
import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from build_time import spread
from opsmith.toolchain.processor import processor_name

__all__ = [
    "Clock",
    "captured",
    "clock_of",
    "compare_clocks",
    "compare_samples",
    "load_textbook",
    "on_cpu",
    "on_gpu",
    "on_host",
    "record",
    "take_turns",
    "torchvision",
]

CALLS_ON_A_GPU = 10

# In an empty store the bridge and headers would be compiled behind the first samples, and those calls go through Python.
os.environ.setdefault("OPSMITH_BRIDGE", "wait")
os.environ.setdefault("OPSMITH_PCH", "off")

# Returns the seconds of one call.
Clock = Callable[[Callable[[], Any]], float]


def on_cpu(call: Callable[[], Any]) -> float:
    """Return the seconds of one call by the host's clock."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def on_gpu(call: Callable[[], Any]) -> float:
    """Return the GPU's time of a call: the median of 10 between events, all queued before the first has ended."""
    torch.cuda._sleep(20_000_000)  # some 10 ms, in which the calls are queued
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(CALLS_ON_A_GPU + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(marks)) / 1e3


def on_host(call: Callable[[], Any], calls: int = CALLS_ON_A_GPU) -> float:
    """Return the host's time of a call on a GPU: the mean of some in a row, until the GPU is done with all of them."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return the replay of a CUDA graph of a call that has been made before.

    It is captured on the current stream, which `record` has made the program's: autograd's nodes belong to the stream on
    which they were made, and the default one cannot be captured.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        call()
    return graph.replay


def clock_of(device: str) -> Clock:
    """Return the clock of a device."""
    return on_gpu if device == "cuda" else on_cpu


def take_turns(calls: Mapping[str, Callable[[], Any]], rounds: Iterable[Any], clock: Clock) -> dict[str, list[float]]:
    """Return the seconds of a call of each contender in each round; there is a round for each item of `rounds`."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffle = list(calls), random.Random(0)
    for _ in rounds:
        shuffle.shuffle(order)
        for name in order:
            samples[name].append(clock(calls[name]))
    return samples


def compare_samples(samples: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return the seconds of all contenders and, where there are others, how many times faster the first one is."""
    ours, *others = samples
    row: dict[str, Any] = {"seconds": {name: spread(values) for name, values in samples.items()}}
    for name in others:
        ratios = [theirs / mine for theirs, mine in zip(samples[name], samples[ours], strict=True)]
        row.setdefault("times_faster", {})[name] = spread(ratios)
    return row


def compare_clocks(
    calls: Mapping[str, Callable[[], Any]], rounds: Iterable[Any], device: str, uncaptured: Collection[str] = ()
) -> dict[str, Any]:
    """Return what `compare_samples` does, by a device's clock, and on a GPU by two more: "host" and "graph".

    These are the host's time of a call, and the GPU's of a CUDA graph of it. Contenders that wait for the GPU cannot be
    captured: they are `uncaptured`.
    """
    row = compare_samples(take_turns(calls, rounds, clock_of(device)))
    if device == "cuda":
        row["host"] = compare_samples(take_turns(calls, rounds, on_host))
        replays = _captured_all({name: call for name, call in calls.items() if name not in uncaptured})
        if next(iter(calls)) in replays:
            row["graph"] = compare_samples(take_turns(replays, rounds, on_gpu))
    return row


def _captured_all(calls: Mapping[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """Return the replays of those that can be captured, and print why others cannot: the rest of a run is not lost."""
    replays = {}
    for name, call in calls.items():
        try:
            replays[name] = captured(call)
        except RuntimeError as error:
            print(f"{name} is not captured: {error}")
    return replays


@functools.cache
def torchvision() -> Any:
    """Return torchvision, or None where it is not installed, which is said once."""
    try:
        return importlib.import_module("torchvision")
    except ImportError:
        print("torchvision is not installed: it is left out")
        return None


def record(
    rows: Iterable[dict[str, Any]],
    device: str,
    output: Path | None,
    summary: Callable[[dict[str, Any]], str],
    versions: Mapping[str, str] | None = None,
) -> None:
    """Print a line for each row as soon as it is known, and write all that there are to a file: a run may be cut off.

    `rows` are computed here, on a GPU on a stream of their own. `versions` are those of more than torch and torchvision.
    """
    if device == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream())  # one that can be captured
    vision = torchvision()
    result: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "torchvision": vision and vision.__version__,
        **(versions or {}),
        "device": torch.cuda.get_device_name() if device == "cuda" else processor_name(),
        "threads": None if device == "cuda" else torch.get_num_threads(),
        "rows": [],
    }
    for row in rows:
        print(summary(row), flush=True)
        result["rows"].append(row)
        if output:
            output.write_text(json.dumps(result, indent=1) + "\n")


def load_textbook(source: Path, folder: Path) -> ctypes.CDLL:
    """Compile a textbook's algorithm with -O3 into a folder, and load it."""
    library = folder / "textbook.so"
    subprocess.run(["g++", "-O3", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))
