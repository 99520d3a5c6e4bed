"""Times an LLTM over a sequence against torch.nn.LSTM of equal size, and against a loop over the definition.

    python benchmarks/lltm_against_lstm.py [--rounds 15] [--output benchmarks/results/lltm_lstm_gpu.json]

For a GPU. All have the same steps, batch, input and state. An LSTM has four gates to an LLTM's three: it does not do the
same work, but has the same role in a model, and cuDNN's is the fastest recurrent layer in PyTorch. It runs with PyTorch's
settings, among them TF32 for float32 products, which the LLTM does not use. The loop is the definition in plain PyTorch,
step by step. In each round every contender takes its turn, in a rotating order; ratios are formed within a round. Both
times are recorded: the GPU's, with the L2 cache flushed and launches hidden, and the wall-clock time that a program waits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import torch
from torch import Tensor

# What is measured must not depend on whether a build in the background has come to its end.
os.environ.setdefault("OPSMITH_BRIDGE", "wait")

from opsmith.benchmark.clock import GpuClock, Turns
from opsmith.benchmark.statistics import median_interval
from opsmith.ops.lltm import lltm_cell, lltm_sequence

# Steps, batch, input, state and type.
CASES = (
    (128, 32, 256, 256, torch.float32),
    (128, 64, 512, 512, torch.float32),
    (128, 16, 32, 128, torch.float32),
    (128, 64, 512, 512, torch.bfloat16),
    (128, 64, 256, 256, torch.bfloat16),
    (128, 256, 512, 512, torch.bfloat16),
    (128, 64, 1024, 1024, torch.bfloat16),
)
# For about 10 ms by the clock in a turn; the loop takes longer than that once.
REPEATS = {"opsmith": 8, "lstm": 4, "loop": 1}


def loop(inputs: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The definition of an LLTM over a sequence, as one would write it in PyTorch."""
    hiddens = []
    for step in inputs.unbind(0):
        hidden, cell = lltm_cell.reference(step, hidden, cell, weight, bias)[:2]
        hiddens.append(hidden)
    return torch.stack(hiddens), cell


def contenders(
    steps: int, batch: int, inputs: int, state: int, dtype: torch.dtype, phase: str
) -> dict[str, Callable[[], object]]:
    """Return the calls to time; each makes the forward, and the gradients of all inputs and weights for phase "both"."""
    torch.manual_seed(0)
    shapes = [(steps, batch, inputs), (batch, state), (batch, state), (3 * state, state + inputs), (3 * state,)]
    tensors = [torch.randn(shape, device="cuda") for shape in shapes]
    tensors[3] /= (state + inputs) ** 0.5
    arguments = [tensor.to(dtype).requires_grad_() for tensor in tensors]
    lstm = torch.nn.LSTM(inputs, state, device="cuda", dtype=dtype)
    outer = [torch.randn(shape, device="cuda", dtype=dtype) for shape in ((steps, batch, state), (batch, state))]

    def run_lstm() -> tuple[Tensor, Tensor]:
        hiddens, (_, cell) = lstm(arguments[0], (arguments[1].unsqueeze(0), arguments[2].unsqueeze(0)))
        return hiddens, cell.squeeze(0)

    forwards: dict[str, tuple[Callable[[], tuple[Tensor, Tensor]], list[Tensor]]] = {
        "opsmith": (lambda: lltm_sequence(*arguments), arguments),
        "lstm": (run_lstm, [*arguments[:3], *lstm.parameters()]),
        "loop": (lambda: loop(*arguments), arguments),
    }

    def call(forward: Callable[[], tuple[Tensor, Tensor]], leaves: list[Tensor]) -> Callable[[], object]:
        if phase == "both":
            return lambda: torch.autograd.grad(forward(), leaves, outer)
        return torch.no_grad()(forward)

    return {name: call(*found) for name, found in forwards.items()}


def time_case(
    case: tuple[int, int, int, int, torch.dtype], phase: str, rounds: int, clock: GpuClock
) -> dict[str, object]:
    """Return the times of all contenders, and how many times as fast ours is, by the GPU's time and by the host's."""
    turns = {name: Turns([call]) for name, call in contenders(*case, phase).items()}
    seconds: dict[str, dict[str, list[float]]] = {name: {"device": [], "host": []} for name in turns}
    for taken in turns.values():
        clock.sample(taken, 1)
    names = list(turns)
    for index in range(rounds):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            sample = clock.sample(turns[name], REPEATS[name])
            seconds[name]["device"].append(sample.device_s)
            seconds[name]["host"].append(sample.wall_s)
    ratios = {
        name: {
            clock_name: spread(
                [theirs / ours for ours, theirs in zip(seconds["opsmith"][clock_name], values, strict=True)]
            )
            for clock_name, values in both.items()
        }
        for name, both in seconds.items()
        if name != "opsmith"
    }
    steps, batch, inputs, state, dtype = case
    return {
        "steps": steps,
        "batch": batch,
        "input": inputs,
        "state": state,
        "dtype": str(dtype).removeprefix("torch."),
        "phase": phase,
        "rounds": rounds,
        "seconds": {
            name: {clock_name: spread(values) for clock_name, values in both.items()} for name, both in seconds.items()
        },
        "times_faster": ratios,
    }


def spread(values: list[float]) -> dict[str, float]:
    found = median_interval(values)
    return {"median": found.middle, "low": found.low, "high": found.high}


def show(row: dict[str, object]) -> None:
    sizes = ", ".join(f"{name} {row[name]}" for name in ("steps", "batch", "input", "state"))
    print(f"{sizes}, {row['dtype']}, {row['phase']}")
    for name, taken in row["seconds"].items():
        line = (
            f"  {name:8} GPU {taken['device']['median'] * 1e6:9.1f} us   host {taken['host']['median'] * 1e6:9.1f} us"
        )
        if faster := row["times_faster"].get(name):
            line += "".join(
                f"   {faster[at]['median']:6.2f}x [{faster[at]['low']:.2f}, {faster[at]['high']:.2f}]" for at in faster
            )
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("lltm_against_lstm.py needs a GPU that PyTorch can use")
    clock = GpuClock()
    rows: list[dict[str, object]] = []
    result = {
        "machine": {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        },
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rows": rows,
    }
    for case in CASES:
        for phase in ("forward", "both"):
            rows.append(time_case(case, phase, arguments.rounds, clock))
            show(rows[-1])
            # At once: a run may be cut off.
            if arguments.output:
                arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
