"""The figures of docs/operators/nms.md, from the results of benchmarks/nms.py."""

from __future__ import annotations

from typing import Any

from turns_tables import turns_tables

__all__ = ["nms_figures"]

FILES = ("nms_gpu.json", "nms_gpu_machine_cpu.json", "nms_cpu.json")


def nms_figures() -> str:
    """Return a table for each result file that is there."""
    return turns_tables(FILES, ("function", "boxes", "threshold", "kept"), _case, peak=True)


def _case(row: dict[str, Any]) -> list[str]:
    return [f"`{row['function']}`", f"{row['boxes']:,} {row['kind']}", f"{row['threshold']}", f"{row['kept']:,}"]
