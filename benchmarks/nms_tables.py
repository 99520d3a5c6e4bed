"""The figures of nms from the results of benchmarks/nms.py: all, and a few for the operator's page."""

from __future__ import annotations

from typing import Any

from turns_tables import turns_tables

__all__ = ["few_nms_figures", "nms_figures"]

FILES = ("nms_gpu.json", "nms_gpu_machine_cpu.json", "nms_cpu.json")
_HEADS = ("function", "boxes", "threshold", "kept")


# What a page shows, all of random boxes and a threshold of 0.5: the function, and how many boxes.
_FEW = {
    ("nms", 1000),
    ("nms", 20000),
    ("nms", 100000),
    ("batched_nms", 20000),
    ("nms_padded", 1000),
    ("soft_nms", 1000),
}


def nms_figures() -> str:
    """Return a table for each result file that is there."""
    return turns_tables(FILES, _HEADS, _case, peak=True)


def few_nms_figures() -> str:
    """Return the same tables with the rows for the operator's page."""
    return turns_tables(FILES, _HEADS, _case, peak=True, only=_is_told)


def _is_told(row: dict[str, Any]) -> bool:
    return row["kind"] == "random" and row["threshold"] == 0.5 and (row["function"], row["boxes"]) in _FEW


def _case(row: dict[str, Any]) -> list[str]:
    return [f"`{row['function']}`", f"{row['boxes']:,} {row['kind']}", f"{row['threshold']}", f"{row['kept']:,}"]
