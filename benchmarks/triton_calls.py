"""Times a Triton kernel that opsmith compiled ahead against Triton's own launch of it, and against a CUDA kernel of ours.

    python benchmarks/triton_calls.py              # needs a GPU and Triton; prints JSON

Host times are those of a queue that never fills up: the median of rounds of 200 calls on 8 rows of 128. GPU times are
those of CUDA events around 20 calls on 8,192 rows of 4,096.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "triton"))

from rows import CONFIGS, softmax
from rows.kernels import softmax_rows

from opsmith.ops.sigmoid import sigmoid

ROUNDS, CALLS = 30, 200


def by_triton(x: torch.Tensor) -> torch.Tensor:
    """Launch the kernel as Triton does, with a wrapper that only allocates."""
    config = next(each for each in CONFIGS if x.shape[1] <= int(str(each["BLOCK"])))
    y = torch.empty_like(x)
    softmax_rows[(x.shape[0],)](
        x, 1.0, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=config["BLOCK"], num_warps=config["num_warps"]
    )
    return y


def host_us(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    """Return the median time of a call on the host in microseconds."""
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(CALLS):
            function(x)
        times.append((time.perf_counter() - started) / CALLS * 1e6)
    return statistics.median(times)


def gpu_us(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    """Return the median time of a call on the GPU in microseconds."""
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            function(x)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 20 * 1e3)
    return statistics.median(times)


def main() -> None:
    """Print the times as JSON."""
    small, large = torch.randn(8, 128, device="cuda"), torch.randn(8192, 4096, device="cuda")
    for function in (softmax, by_triton, sigmoid):  # builds, loads and compiles
        function(small), function(large)
    torch.testing.assert_close(softmax(large), by_triton(large), rtol=1e-5, atol=1e-6)
    print(
        json.dumps(
            {
                "gpu": torch.cuda.get_device_name(),
                "host_us": {
                    "opsmith, Triton kernel": host_us(softmax, small),
                    "Triton, kernel[grid](...)": host_us(by_triton, small),
                    "opsmith, CUDA kernel": host_us(sigmoid, small),
                },
                "gpu_us": {"opsmith": gpu_us(softmax, large), "Triton": gpu_us(by_triton, large)},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
