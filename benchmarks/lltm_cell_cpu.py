"""Times lltm_cell against its reference on the CPU: forward, and forward with backward, over a grid of sizes.

    python benchmarks/lltm_cell_cpu.py [--output FILE] [--dtype float32] [--quick]

Both sides are called as a user calls them, one after the other in rounds of about 10 ms, so that what else the machine
does meets both. A ratio is taken within each round; the table gives their median and their quartiles. Gradients are
those of all five inputs, asked for by torch.autograd.grad, which unlike backward() leaves out their addition to `.grad`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

import opsmith
from opsmith.ops.lltm import lltm_cell

# What is measured must not depend on whether a build in the background has come to its end.
os.environ.setdefault("OPSMITH_BRIDGE", "wait")

Size = tuple[int, int, int]  # batch, input, state

# The first is the tutorial's. Then batches at its sizes, and what is smaller and larger.
SIZES: list[Size] = [
    (16, 32, 128),
    *[(batch, 32, 128) for batch in (1, 4, 8, 64, 256)],
    *[(batch, size, size) for size in (8, 32, 128, 512) for batch in (1, 8, 16, 64, 256)],
    *[(batch, 1024, 1024) for batch in (1, 16, 256)],
]
ROUND_SECONDS = 0.01


@dataclass(frozen=True)
class Timing:
    """What both sides took for one case; a ratio above 1 says that the operator is faster than its reference."""

    batch: int
    input: int
    state: int
    dtype: str
    threads: int
    what: str
    operator_us: float
    reference_us: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    rounds: int


def make_arguments(size: Size, dtype: torch.dtype) -> list[Tensor]:
    batch, inputs, state = size
    torch.manual_seed(0)
    shapes = [(batch, inputs), (batch, state), (batch, state), (3 * state, state + inputs), (3 * state,)]
    bound = state**-0.5
    return [torch.empty(shape).uniform_(-bound, bound).to(dtype).requires_grad_() for shape in shapes]


def run_forward(function: Callable[..., tuple[Tensor, ...]], arguments: list[Tensor]) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            function(*arguments)

    return run


def run_both(function: Callable[..., tuple[Tensor, ...]], arguments: list[Tensor]) -> Callable[[], None]:
    outer = [torch.ones_like(arguments[2]) for _ in "hc"]

    def run() -> None:
        torch.autograd.grad(function(*arguments)[:2], arguments, outer)

    return run


CASES = {"forward": run_forward, "forward+backward": run_both}


def seconds_for(run: Callable[[], None], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def compare(size: Size, dtype: torch.dtype, what: str, rounds: int) -> Timing:
    arguments = make_arguments(size, dtype)
    ours, theirs = (CASES[what](function, arguments) for function in (lltm_cell, lltm_cell.reference))
    seconds_for(ours, 20)
    seconds_for(theirs, 20)
    count = max(1, round(ROUND_SECONDS / seconds_for(theirs, 10)))
    pairs = [(seconds_for(ours, count), seconds_for(theirs, count)) for _ in range(rounds)]
    ratios = [reference / operator for operator, reference in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    operator_us, reference_us = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    return Timing(
        *size, str(dtype).removeprefix("torch."), torch.get_num_threads(), what, operator_us, reference_us, middle,
        (low, high), rounds,
    )  # fmt: skip


def measure(sizes: list[Size], dtype: torch.dtype, rounds: int) -> Iterator[Timing]:
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        for size in sizes:
            for what in CASES:
                yield compare(size, dtype, what, rounds)


def describe_machine() -> dict[str, str | int]:
    names = [line.partition(":")[2].strip() for line in read_lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(names),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "opsmith": opsmith.__version__,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
    }


def read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="write the timings there, as JSON")
    parser.add_argument("--dtype", default="float32", choices=["float16", "bfloat16", "float32", "float64"])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--quick", action="store_true", help="the tutorial's size alone")
    options = parser.parse_args()
    timings = []
    print(f"{'B':>4} {'I':>5} {'S':>5} thr {'':<17} {'operator':>10} {'reference':>10}  ratio (quartiles)")
    sizes = SIZES[:1] if options.quick else SIZES
    for timing in measure(sizes, getattr(torch, options.dtype), options.rounds):
        timings.append(timing)
        low, high = timing.ratio_quartiles
        print(
            f"{timing.batch:>4} {timing.input:>5} {timing.state:>5} {timing.threads:>3} {timing.what:<17}"
            f" {timing.operator_us:>7.1f} us {timing.reference_us:>7.1f} us  {timing.ratio:5.2f} ({low:.2f}-{high:.2f})",
            flush=True,
        )
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        report = {"machine": describe_machine(), "timings": [asdict(timing) for timing in timings]}
        options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
