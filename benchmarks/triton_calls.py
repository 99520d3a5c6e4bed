"""Times calls of a Triton kernel that opsmith compiled ahead against Triton's own launch of it, and a CUDA kernel of ours.

    python benchmarks/triton_calls.py [--rounds 30] [--output benchmarks/results/triton_calls.json]

It needs a GPU and Triton. The kernel is the softmax of examples/triton/rows. Contenders take turns within a round and ratios
are formed within a round (turns.py). A row has one of two clocks:

host  the seconds of the host for one of 200 calls that are queued, on 8 rows of 128, which the GPU is done with before the
      next one arrives. "triton" is a wrapper that allocates the result and calls `kernel[grid](...)`; "triton, launch" is
      that line alone, with all its arguments made before. "cuda" is opsmith's call of a softmax with the same arguments
      and a kernel in CUDA, "torch" PyTorch's.
gpu   the GPU's seconds of a call, between events of calls that are all queued before the first has ended.
"""

# ruff: noqa: E402 -- the operators are found after their folders are named

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import triton

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "examples" / "triton"), str(HERE / "triton_calls")]

from rows import CONFIGS, softmax
from rows.kernels import softmax_rows
from softmax_cuda import softmax_cuda

from turns import compare_samples, on_gpu, record, take_turns

CALLS = 200  # the GPU's queue holds 1,024
SMALL = (8, 128)
# Of the GPU's times: rows, columns, element type. The last one's rows are no multiples of 16 bytes.
LARGE = ((8192, 4096, "float32"), (8192, 4096, "bfloat16"), (65536, 256, "bfloat16"), (8192, 1023, "float32"))


def launch_of(x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    """Return Triton's launch of the kernel, in the configuration that opsmith takes."""
    rows, columns = x.shape
    config = next(each for each in CONFIGS if columns <= int(str(each["BLOCK"])))
    arguments = (x, 1.0, y, columns, x.stride(0), y.stride(0))
    constants = {"BLOCK": config["BLOCK"], "num_warps": config["num_warps"]}
    return lambda: softmax_rows[(rows,)](*arguments, **constants)


def by_triton(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax as a wrapper around the launch does it, which only allocates."""
    rows, columns = x.shape
    config = next(each for each in CONFIGS if columns <= int(str(each["BLOCK"])))
    y = torch.empty_like(x)
    softmax_rows[(rows,)](
        x, 1.0, y, columns, x.stride(0), y.stride(0), BLOCK=config["BLOCK"], num_warps=config["num_warps"]
    )
    return y


def on_queue(call: Callable[[], Any]) -> float:
    """Return the host's seconds of a call: the mean of 200 that are queued, without waiting for the GPU."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS


def contenders(x: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Return calls that compute the same, and have been made: built, loaded, compiled, and compared."""
    y = torch.empty_like(x)
    launch = launch_of(x, y)
    calls: dict[str, Callable[[], Any]] = {
        "opsmith": lambda: softmax(x),
        "triton": lambda: by_triton(x),
        "triton, launch": launch,
        "torch": lambda: torch.softmax(x, 1),
    }
    if x.dtype == torch.float32:
        calls["cuda"] = lambda: softmax_cuda(x)
    expected = torch.softmax(x.double(), 1)
    for name, call in calls.items():
        found = call()
        tolerance = 1e-5 if x.dtype == torch.float32 else 2e-2
        result = y if name == "triton, launch" else found
        torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=1e-6, msg=f"{name} differs")
    return calls


def rows_of(rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the host's times and then those of the GPU."""
    x = torch.randn(SMALL, device="cuda")
    calls = contenders(x)
    for call in calls.values():
        on_queue(call)
    samples = take_turns(calls, range(rounds), on_queue)
    yield {"clock": "host", "shape": SMALL, "dtype": "float32", **compare_samples(samples)}
    for rows, columns, dtype in LARGE:
        x = torch.randn(rows, columns, device="cuda").to(getattr(torch, dtype))
        # A CUDA kernel is there for what a call costs: this one is not written to be fast.
        calls = {name: call for name, call in contenders(x).items() if name in ("opsmith", "triton", "torch")}
        samples = take_turns(calls, range(rounds), on_gpu)
        yield {"clock": "gpu", "shape": (rows, columns), "dtype": dtype, **compare_samples(samples)}


def summary(row: dict[str, Any]) -> str:
    """Return a line that says how a case went."""
    rows, columns = row["shape"]
    times = ", ".join(f"{name} {values['median'] * 1e6:.2f} us" for name, values in row["seconds"].items())
    return f"{row['clock']}, {rows} x {columns} {row['dtype']}: {times}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    record(rows_of(given.rounds), "cuda", given.output, summary, {"triton": triton.__version__})


if __name__ == "__main__":
    main()
