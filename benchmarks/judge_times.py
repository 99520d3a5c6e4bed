"""Holds the times that `opsmith judge` takes of honest code against those of `opsmith bench` and of CUPTI.

    python benchmarks/judge_times.py [--rounds 5] [--output benchmarks/results/judge_times_gpu.json]

It needs a GPU. Each function is its own candidate. The judge times it by the wall clock of another process, around a batch
of calls; `bench` takes CUDA events around each call, and CUPTI the time of its kernels. All three see inputs that are not in
the GPU's cache. They take turns, and ratios are formed within a round.
"""

from __future__ import annotations

import argparse
import inspect
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float32
from torch import Tensor
from torch.nn import functional

import opsmith
from turns import compare_samples, record

Matrix = Float32[Tensor, "M N"]


def softmax(x: Matrix) -> Matrix:
    return torch.softmax(x, dim=-1)


def gelu(x: Matrix) -> Matrix:
    return functional.gelu(x)


def row_sums(x: Matrix) -> Float32[Tensor, "M"]:
    return x.sum(1)


def layer_norm(x: Matrix) -> Matrix:
    return functional.layer_norm(x, x.shape[1:])


def product(x: Matrix) -> Float32[Tensor, "M M"]:
    return x @ x.t()


CASES: tuple[tuple[Callable[..., Any], int, int], ...] = (
    (softmax, 8192, 4096),
    (gelu, 8192, 4096),
    (row_sums, 8192, 8192),
    (layer_norm, 8192, 4096),
    (product, 4096, 4096),
)
_PREFIX = 'import torch\nfrom torch.nn import functional\n\nMatrix = "matrix"\n\n\n'


def judged_s(function: Callable[..., Any], rows: int, columns: int, folder: Path) -> float:
    """Return the seconds of a call as the judge takes them."""
    text = inspect.getsource(function)
    head, _, body = text.partition("\n")
    path = folder / "candidate.py"
    path.write_text(_PREFIX + head.partition(" ->")[0] + ":\n" + body)
    examples = [(torch.randn(rows, columns),)]
    judgement = opsmith.judge(function, path, examples=examples, device="cuda", operator=False, seconds=60.0)
    if not judgement.ok:
        raise SystemExit(str(judgement))
    return judgement.speeds[0].median_s


def benched_s(function: Callable[..., Any], rows: int, columns: int) -> tuple[float, float]:
    """Return the seconds of a call as `bench` takes them, and of its kernels."""
    report = opsmith.bench(
        function, reference=function, device="cuda", phases="forward", against="eager", dtypes=["float32"],
        sizes=[{"M": rows, "N": columns}], seconds=20.0,
    )  # fmt: skip
    (own,) = [timing for timing in report.timings if timing.is_own]
    if own.time is None or own.kernel_s is None:
        raise SystemExit(str(report))
    return own.time.middle, own.kernel_s


def rows_of(rounds: int) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        for function, rows, columns in CASES:
            seconds: dict[str, list[float]] = {"judge": [], "bench": [], "kernels": []}
            for _ in range(rounds):
                seconds["judge"].append(judged_s(function, rows, columns, Path(folder)))
                bench_s, kernels_s = benched_s(function, rows, columns)
                seconds["bench"].append(bench_s)
                seconds["kernels"].append(kernels_s)
            yield {"case": function.__name__, "shape": [rows, columns], **compare_samples(seconds)}


def summary(row: dict[str, Any]) -> str:
    """Return a row's line."""
    times = ", ".join(f"{name} {1e6 * value['median']:.1f} us" for name, value in row["seconds"].items())
    ratios = ", ".join(f"{name}'s {value['median']:.3f}" for name, value in row["times_faster"].items())
    return f"{row['case']} {row['shape']}: {times}; of the judge's time {ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    record(rows_of(options.rounds), "cuda", options.output, summary)


if __name__ == "__main__":
    main()
