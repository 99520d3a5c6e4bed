"""Measures the least time of a forward and backward of mlp: what it costs when kernels compute nothing.

    python benchmarks/gradient_floor.py [--device cpu] [--seconds 10] [--output benchmarks/results/gradient_floor_cpu.json]

Times, in wall-clock time and at the size of a small perceptron, the layers in eager PyTorch, mlp, an operator with mlp's
arguments whose kernels only allocate (gradient_floor/nothing.py), and PyTorch's own cheapest node of five inputs. They take
turns; ratios are formed within each round. On a GPU nothing waits for it inside the timed part.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "gradient_floor"))
os.environ.setdefault("OPSMITH_BRIDGE", "wait")  # a gradient in Python would be timed otherwise

from nothing import nothing  # noqa: E402

from opsmith.ops.mlp import mlp  # noqa: E402
from opsmith.toolchain.processor import processor_name  # noqa: E402

SIZES = {"B": 16, "F": 32, "H": 128, "O": 1}
CALLS = 100  # in a sample; a GPU's queue holds the kernels of more


def eager(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:
    """The layers as one writes them in PyTorch."""
    return functional.linear(torch.relu(functional.linear(x, weight1, bias1)), weight2, bias2)


def cat(*arguments: Tensor) -> Tensor:
    """One node of PyTorch's with five inputs, of one element each; its backward makes views."""
    return torch.cat(arguments)


def steps(device: str) -> dict[str, Callable[[], object]]:
    """Return a forward and backward of each contender."""
    batch, features, units, outputs = SIZES.values()
    shapes = [(batch, features), (units, features), (units,), (outputs, units), (outputs,)]
    leaves = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    single = [torch.ones(1, device=device, requires_grad=True) for _ in shapes]

    def step(function: Callable[..., Tensor], inputs: list[Tensor]) -> Callable[[], object]:
        outer = torch.ones_like(function(*inputs))
        return lambda: torch.autograd.grad(function(*inputs), inputs, outer)

    return {
        "eager": step(eager, leaves),
        "mlp": step(mlp, leaves),
        "nothing": step(nothing, leaves),
        "cat": step(cat, single),
    }


def sample(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        work()
    seconds = (time.perf_counter() - begin) / CALLS
    wait()
    return seconds


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="PyTorch's threads on the CPU")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    contenders = steps(arguments.device)
    wait: Callable[[], object] = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    for work in contenders.values():
        sample(work, wait)
    rounds: list[dict[str, float]] = []
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        rounds.append({name: sample(work, wait) for name, work in contenders.items()})
    results = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": torch.cuda.get_device_name() if arguments.device == "cuda" else processor_name(),
        "device": arguments.device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "sizes": SIZES,
        "rounds": len(rounds),
        "seconds": {name: statistics.median(found[name] for found in rounds) for name in contenders},
        "eager_over": {
            name: statistics.median(found["eager"] / found[name] for found in rounds) for name in contenders
        },
    }
    print(json.dumps(results, indent=2))
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
