"""The figures of docs/operators/roi_align.md, from the results of benchmarks/roi_align.py."""

from __future__ import annotations

from typing import Any

from turns_tables import PHASES, turns_tables

__all__ = ["roi_align_figures"]


def roi_align_figures() -> str:
    """Return a table for each result file that is there."""
    return turns_tables(("roi_align_cpu.json", "roi_align_gpu.json"), ("case",), _case)


def _case(row: dict[str, Any]) -> list[str]:
    phase = PHASES[row["phase"]]
    if "function" not in row:
        return [phase]
    return [f"{row['function']} {row['bins']} x {row['bins']} {row['dtype']} {row['layout']}, {phase}"]
