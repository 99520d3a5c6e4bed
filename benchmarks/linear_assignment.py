"""Times linear_assignment against SciPy, problem by problem.

    python benchmarks/linear_assignment.py [--device cpu|cuda] [--output benchmarks/results/linear_assignment_gpu.json]

Batches as a DETR's loss has them: 300 queries x 50 targets of 64 images, 900 x 100 of 16; and one square problem of 1,000.
"uniform" costs are random numbers. "boxes" are distances between the boxes of queries and of targets, where each query lies
near some target, so that many want the same one. SciPy gets a problem after another; on a GPU the costs are copied to the
host first, and the indices back. Ours leaves both where they are.

Competitors take turns within a round, ratios are formed within a round, and all of them have been called before.
`difference` is the largest one between the totals of a problem, as a part of SciPy's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from opsmith.ops.linear_assignment import linear_assignment
from turns import compare_clocks, record

ROUNDS = 11

# Returns for each row its column, or -1.
Assignment = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """A batch of problems."""

    shape: tuple[int, int, int]
    kind: str
    dtype: torch.dtype


CASES = tuple(
    Case(shape, kind, dtype)
    for shape in ((64, 300, 50), (16, 900, 100), (1, 1000, 1000))
    for kind in ("uniform", "boxes")
    for dtype in ((torch.float32, torch.float64) if shape[0] == 1 else (torch.float32,))
)


def costs(case: Case, device: str) -> Tensor:
    """Return the costs, made on the CPU so that they are the same everywhere."""
    random = torch.Generator().manual_seed(0)
    batch, n, m = case.shape
    if case.kind == "uniform":
        return torch.rand(case.shape, generator=random, dtype=torch.float64).to(device, case.dtype)
    targets = torch.rand(batch, m, 4, generator=random, dtype=torch.float64)
    wanted = torch.randint(0, m, (batch, n, 1), generator=random).expand(-1, -1, 4)
    noise = 0.1 * torch.randn(batch, n, 4, generator=random, dtype=torch.float64)
    return torch.cdist(targets.gather(1, wanted) + noise, targets, p=1).to(device, case.dtype)


def with_scipy(cost: Tensor) -> Tensor:
    """Return what ours does, by way of the host."""
    found = torch.full(cost.shape[:2], -1, dtype=torch.int64)
    for problem, columns in zip(cost.cpu().numpy(), found, strict=True):
        row_ind, col_ind = linear_sum_assignment(problem)
        columns[torch.from_numpy(row_ind)] = torch.from_numpy(col_ind)
    return found.to(cost.device)


CONTENDERS: dict[str, Assignment] = {"opsmith": lambda cost: linear_assignment(cost)[0], "scipy": with_scipy}


def totals(cost: Tensor, columns: Tensor) -> Tensor:
    """Return the total cost of each problem's pairs."""
    chosen = cost.double().gather(2, columns.clamp(min=0)[..., None])[..., 0]
    return torch.where(columns >= 0, chosen, 0.0).sum(1)


def measured(device: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each case."""
    for case in CASES:
        cost = costs(case, device)
        ours, theirs = (totals(cost, call(cost)) for call in CONTENDERS.values())
        calls = {name: partial(call, cost) for name, call in CONTENDERS.items()}
        row: dict[str, Any] = {
            "shape": list(case.shape),
            "kind": case.kind,
            "dtype": str(case.dtype).removeprefix("torch."),
        }
        row |= compare_clocks(calls, range(ROUNDS), device, uncaptured={"scipy"})
        row["difference"] = float(((ours - theirs).abs() / theirs.abs()).max())
        yield row


def _summary(row: dict[str, Any]) -> str:
    faster = ", ".join(f"{name} {times['median']:.2f}x" for name, times in row["times_faster"].items())
    ours = row["seconds"]["opsmith"]["median"] * 1e6
    shape = " x ".join(map(str, row["shape"]))
    return (
        f"{shape:17} {row['kind']:8} {row['dtype']:8} {ours:10.1f} us   {faster}   difference {row['difference']:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    record(measured(given.device), given.device, given.output, _summary)


if __name__ == "__main__":
    main()
