"""The figures of deform_conv2d from the results of benchmarks/deform_conv2d.py: all, and a few for the operator's page."""

from __future__ import annotations

from typing import Any

from turns_tables import PHASES, turns_tables

__all__ = ["deform_conv2d_figures", "few_deform_conv2d_figures"]

_FILES = ("deform_conv2d_cpu.json", "deform_conv2d_gpu.json")
_HEADS = ("N x C x H x W", "dtype", "phase")
# What both sides compute in, by the setting of TF32 or the type.
_PRECISIONS = {
    "everywhere": ", TF32 on both sides",
    "nowhere": ", TF32 on neither side",
    "in convolutions": " as PyTorch is set: TF32 here, not in torchvision",
    "bfloat16": "; torchvision in float32 without TF32",
}


def deform_conv2d_figures() -> str:
    """Return the tables of the result files that are there."""
    return turns_tables(_FILES, _HEADS, _case)


def few_deform_conv2d_figures() -> str:
    """Return the same tables without the larger batches."""
    return turns_tables(_FILES, _HEADS, _case, only=lambda row: row["shape"][0] <= 8)


def _case(row: dict[str, Any]) -> list[str]:
    return [
        " x ".join(map(str, row["shape"])),
        row["dtype"] + _PRECISIONS.get(row["tf32"] or row["dtype"], ""),
        PHASES[row["phase"]],
    ]
