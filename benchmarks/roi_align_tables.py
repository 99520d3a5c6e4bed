"""The figures of roi_align from the results of benchmarks/roi_align.py: all, and a few for the operator's page."""

from __future__ import annotations

from typing import Any

from turns_tables import PHASES, turns_tables

__all__ = ["few_roi_align_figures", "roi_align_figures"]

_FILES = ("roi_align_cpu.json", "roi_align_gpu.json")


def roi_align_figures() -> str:
    """Return a table for each result file that is there."""
    return turns_tables(_FILES, ("case",), _case)


def few_roi_align_figures() -> str:
    """Return the same tables, on a GPU only for float32, 7 x 7 bins, and boxes of all sizes or of up to 100 pixels."""
    return turns_tables(_FILES, ("case",), _case, only=_is_on_the_page)


def _is_on_the_page(row: dict[str, Any]) -> bool:
    sides = row.get("sides")
    return row.get("bins", 7) == 7 and "16" not in row.get("dtype", "") and (not sides or tuple(sides) == (1, 100))


def _case(row: dict[str, Any]) -> list[str]:
    phase = PHASES[row["phase"]]
    if "function" not in row:
        return [phase]
    # It does not support bfloat16.
    dtype = "bfloat16 (torchvision: float16)" if row["dtype"] == "bfloat16" else row["dtype"]
    boxes = ", boxes of {} to {} pixels".format(*row["sides"]) if row.get("sides") else ""
    return [f"{row['function']} {row['bins']} x {row['bins']} {dtype} {row['layout']}{boxes}, {phase}"]
