"""The figures of docs/operators/boxes.md and paste_masks.md, from the results of benchmarks/boxes.py."""

from __future__ import annotations

from typing import Any

from turns_tables import PHASES, turns_tables

__all__ = ["boxes_figures", "paste_masks_figures"]


def boxes_figures() -> str:
    """Return a table for each result file of overlaps, their loss, formats and clipping that is there."""
    return turns_tables(("boxes_cpu.json", "boxes_gpu.json"), ("function", "case"), _cells)


def paste_masks_figures() -> str:
    """Return a table for each result file of pasted masks that is there."""
    return turns_tables(("paste_masks_cpu.json", "paste_masks_gpu.json"), ("function", "case"), _cells)


def _cells(row: dict[str, Any]) -> list[str]:
    return [f"`{row['function']}`", f"{row['size']}, {row['dtype']}, {PHASES[row['phase']]}"]
