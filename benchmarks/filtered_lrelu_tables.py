"""The table of docs/operators/filtered_lrelu.md of StyleGAN3's layers, from the results of benchmarks/stylegan3.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opsmith.report.markdown import head_markdown, row_markdown
from opsmith.report.units import duration

__all__ = ["stylegan3_figures"]

RESULTS = Path(__file__).resolve().parent / "results"


def stylegan3_figures() -> str:
    """Return a row for each call that StyleGAN3's generators make, with a time and a ratio for each phase; "" without
    results.
    """
    path = RESULTS / "stylegan3.json"
    if not path.is_file():
        return ""
    result = json.loads(path.read_text(encoding="utf-8"))
    calls: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in result["rows"]:
        calls.setdefault((row["layers"], row["call"]), {})[row["phase"]] = row
    phases = list(dict.fromkeys(row["phase"] for row in result["rows"]))
    batch = result["rows"][0]["batch"]
    lines = [
        f"**{result['device']}**, torch {result['torch']}, {result['date'][:10]}; {batch} images",
        "",
        head_markdown(["layers", "input of an image", "filters", *phases]),
    ]
    for (layers, call), found in calls.items():
        size, up, down, taps = call.split(", ")[:4]
        lines.append(row_markdown([layers, size, f"{up}, {down}, {taps}", *(_cell(found[phase]) for phase in phases)]))
    for name in dict.fromkeys(layers.partition(" ")[0] for layers, _ in calls):
        own = [(layers, found) for (layers, _), found in calls.items() if layers.partition(" ")[0] == name]
        sums = [_sum([(layers.count(" "), found[phase]) for layers, found in own]) for phase in phases]
        lines.append(row_markdown([f"all of {name}", "", "", *sums]))
    return "\n".join(lines)


def _sum(rows: list[tuple[int, dict[str, Any]]]) -> str:
    """Return what rows take together, each for so many layers."""
    ours, theirs = (
        sum(count * float(row["seconds"][name]["median"]) for count, row in rows) for name in ("opsmith", "StyleGAN3")
    )
    return f"{duration(ours)}, {theirs / ours:.2f}x"


def _cell(row: dict[str, Any]) -> str:
    faster = row["times_faster"]["StyleGAN3"]
    time = duration(row["seconds"]["opsmith"]["median"])
    return f"{time}, {faster['median']:.2f}x [{faster['min']:.2f}, {faster['max']:.2f}]"
