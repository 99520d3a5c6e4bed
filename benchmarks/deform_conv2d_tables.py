"""The figures of docs/deform_conv2d.md, from what benchmarks/deform_conv2d.py has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opsmith.bench.render.units import duration

__all__ = ["deform_conv2d_figures"]

RESULTS = Path(__file__).resolve().parent / "results"
_NAMES = {"torchvision": "torchvision", "textbook": "the textbook in C++"}
_PHASES = {"forward": "forward", "backward": "backward", "both": "forward and backward"}


def deform_conv2d_figures() -> str:
    """Return the tables of the result files that are there."""
    paths = [RESULTS / f"deform_conv2d_{where}.json" for where in ("cpu", "gpu")]
    tables = ["\n".join(_table(json.loads(path.read_text(encoding="utf-8")))) for path in paths if path.is_file()]
    return "\n\n".join(tables) or "Nothing has been measured yet."


def _table(result: dict[str, Any]) -> Iterator[str]:
    rows = result["rows"]
    others = [name for name in _NAMES if any(name in row["times_faster"] for row in rows)]
    threads = f", {result['threads']} threads" if result["threads"] else ""
    yield f"**{result['device']}**{threads}, torch {result['torch']}, {result['date'][:10]}"
    yield ""
    heads = ["N x C x H x W", "type", "phase", "time", *(f"against {_NAMES[name]}" for name in others)]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        cells = [" x ".join(map(str, row["shape"])), row["dtype"] + (" (TF32)" if row["tf32"] else "")]
        cells += [_PHASES[row["phase"]], duration(row["seconds"]["opsmith"]["median"])]
        cells += [_ratio(row["times_faster"].get(name)) for name in others]
        yield f"| {' | '.join(cells)} |"


def _ratio(faster: dict[str, float] | None) -> str:
    return f"{faster['median']:.1f}x [{faster['min']:.1f}, {faster['max']:.1f}]" if faster else ""
