"""The figures of docs/roi_align.md, from what benchmarks/roi_align.py has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opsmith.bench.render.units import duration

__all__ = ["roi_align_figures"]

RESULTS = Path(__file__).resolve().parent / "results"
_NAMES = {"torchvision": "torchvision", "textbook": "the textbook in C++"}
_PHASES = {"forward": "forward", "backward": "backward", "both": "forward and backward"}


def roi_align_figures() -> str:
    """Return a table for each result file that is there."""
    tables = [
        "\n".join(_table(json.loads(path.read_text(encoding="utf-8"))))
        for path in (RESULTS / "roi_align_cpu.json", RESULTS / "roi_align_gpu.json")
        if path.is_file()
    ]
    return "\n\n".join(tables) or "Nothing has been measured yet."


def _table(result: dict[str, Any]) -> Iterator[str]:
    rows = result["rows"]
    others = [name for name in _NAMES if any(name in row.get("times_faster", {}) for row in rows)]
    yield f"**{result['device']}**, {result['threads']} threads, torch {result['torch']}, {result['date'][:10]}"
    yield ""
    heads = ["case", "time", *(f"against {_NAMES[name]}" for name in others)]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        cells = [_what(row), duration(row["seconds"]["opsmith"]["median"])]
        cells += [_ratio(row["times_faster"][name]) if name in row.get("times_faster", {}) else "" for name in others]
        yield f"| {' | '.join(cells)} |"


def _what(row: dict[str, Any]) -> str:
    phase = _PHASES[row["phase"]]
    if "function" not in row:
        return phase
    return f"{row['function']} {row['bins']} x {row['bins']} {row['dtype']} {row['layout']}, {phase}"


def _ratio(faster: dict[str, float]) -> str:
    return f"{faster['median']:.1f}x [{faster['min']:.1f}, {faster['max']:.1f}]"
