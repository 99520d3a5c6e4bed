"""The figures of docs/operators/deform_conv2d.md, from the results of benchmarks/deform_conv2d.py."""

from __future__ import annotations

from typing import Any

from turns_tables import PHASES, turns_tables

__all__ = ["deform_conv2d_figures"]


def deform_conv2d_figures() -> str:
    """Return the tables of the result files that are there."""
    files = ("deform_conv2d_cpu.json", "deform_conv2d_gpu.json")
    return turns_tables(files, ("N x C x H x W", "dtype", "phase"), _case)


def _case(row: dict[str, Any]) -> list[str]:
    return [
        " x ".join(map(str, row["shape"])),
        row["dtype"] + (f" (TF32 {row['tf32']})" if row["tf32"] else ""),
        PHASES[row["phase"]],
    ]
