"""The figures of docs/operators/linear_assignment.md, from the results of benchmarks/linear_assignment.py."""

from __future__ import annotations

from typing import Any

from turns_tables import turns_tables

__all__ = ["linear_assignment_figures"]


def linear_assignment_figures() -> str:
    """Return a table for each result file that is there."""
    return turns_tables(("linear_assignment_cpu.json", "linear_assignment_gpu.json"), ("problems", "costs"), _case)


def _case(row: dict[str, Any]) -> list[str]:
    batch, n, m = row["shape"]
    return [f"{batch} of {n:,} x {m:,}", f"{row['kind']}, {row['dtype']}"]
