"""The figures of docs/nms.md, from what benchmarks/nms.py has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opsmith.bench.render.units import duration

__all__ = ["nms_figures"]

RESULTS = Path(__file__).resolve().parent / "results"
FILES = ("nms_gpu.json", "nms_gpu_machine_cpu.json", "nms_cpu.json")
_NAMES = {"torchvision": "torchvision", "textbook": "the textbook in C++", "host": "the CPU and copies"}


def nms_figures() -> str:
    """Return a table for each result file that is there."""
    found = [json.loads((RESULTS / file).read_text(encoding="utf-8")) for file in FILES if (RESULTS / file).is_file()]
    return "\n\n".join("\n".join(_table(result)) for result in found) or "Nothing has been measured yet."


def _table(result: dict[str, Any]) -> Iterator[str]:
    rows = result["rows"]
    others = [name for name in _NAMES if any(name in row.get("times_faster", {}) for row in rows)]
    versions = f"torch {result['torch']}"
    if result["torchvision"]:
        versions += f", torchvision {result['torchvision']}"
    yield f"**{result['device']}**, {result['threads']} threads, {versions}, {result['date'][:10]}"
    yield ""
    peak = any("peak_bytes" in row for row in rows)
    heads = ["function", "boxes", "threshold", "kept", "time", *(f"against {_NAMES[name]}" for name in others)]
    yield f"| {' | '.join([*heads, *(['peak memory'] if peak else [])])} |"
    yield "|---" * (len(heads) + peak) + "|"
    for row in rows:
        cells = [f"`{row['function']}`", f"{row['boxes']:,} {row['kind']}", f"{row['threshold']}", f"{row['kept']:,}"]
        cells.append(duration(row["seconds"]["opsmith"]["median"]))
        cells += [_ratio(row, name) for name in others]
        if peak:
            cells.append(f"{row['peak_bytes'] / 1e6:,.1f} MB")
        yield f"| {' | '.join(cells)} |"


def _ratio(row: dict[str, Any], name: str) -> str:
    if name not in row.get("times_faster", {}):
        return "–"
    faster = row["times_faster"][name]
    return f"{faster['median']:.1f}x [{faster['min']:.1f}, {faster['max']:.1f}]"
