"""The figures of docs/operators/ms_deform_attn.md, from the results of benchmarks/ms_deform_attn.py."""

from __future__ import annotations

from typing import Any

from turns_tables import PHASES, turns_tables

__all__ = ["ms_deform_attn_figures"]


def ms_deform_attn_figures() -> str:
    """Return a table for each result file that is there."""
    return turns_tables(("ms_deform_attn_cpu.json", "ms_deform_attn_gpu.json"), ("case",), _case)


def _case(row: dict[str, Any]) -> list[str]:
    kind, _, count = row["queries"].partition(" ")
    queries = f"{kind}, {count} queries" if count else kind
    return [f"{queries}, {row['dtype']}, {PHASES[row['phase']]}"]
