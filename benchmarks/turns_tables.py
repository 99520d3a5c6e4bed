"""Tables of what turns.py has measured, for nms, roi_align and deform_conv2d.

A result file has a row for each case: `seconds` of every contender, and `times_faster`, our speedup over each of the others.
On a GPU it may have both of two more clocks: of the host, and of CUDA graphs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headline import Figure
from opsmith.report.markdown import head_markdown, row_markdown
from opsmith.report.units import duration

__all__ = ["HEADLINES", "PHASES", "TurnsHeadline", "turns_headlines", "turns_tables"]

RESULTS = Path(__file__).resolve().parent / "results"
NAMES = {
    "torchvision": "torchvision",
    "textbook": "the textbook in C++",
    "host": "copies and the CPU",
    "composition": "the composition",
    "composition, compiled": "the composition, compiled",
    "mask by mask": "mask by mask",
    "grid_sample": "`grid_sample`",
    "grid_sample, compiled": "`grid_sample`, compiled",
    "a straightforward kernel": "a straightforward kernel",
    "scipy": "SciPy",
}
# Clocks beside that of "time", by their names in a row.
CLOCKS = {"host": "by the host", "graph": "in a CUDA graph"}
PHASES = {"forward": "forward", "backward": "backward", "both": "forward and backward"}

Row = dict[str, Any]


@dataclass(frozen=True)
class TurnsHeadline:
    """The case of a result file that has these values, in words, and one competitor."""

    page: str
    file: str
    operator: str
    case: Mapping[str, Any]
    words: str
    competitor: str = "torchvision"


_RANDOM = {"function": "nms", "kind": "random", "threshold": 0.5}
_ROIS = {"function": "roi_align", "bins": 7, "layout": "channels_last"}

HEADLINES = (
    TurnsHeadline("nms", "nms_gpu.json", "nms", {**_RANDOM, "boxes": 20000}, "20,000 random boxes"),
    TurnsHeadline("nms", "nms_gpu.json", "nms", {**_RANDOM, "boxes": 100000}, "100,000 random boxes"),
    TurnsHeadline("nms", "nms_cpu.json", "nms", {**_RANDOM, "boxes": 20000}, "20,000 random boxes", "textbook"),
    TurnsHeadline(
        "roi_align",
        "roi_align_gpu.json",
        "roi_align",
        {**_ROIS, "dtype": "float32", "phase": "forward"},
        "float32, forward, 1,024 boxes of 256 channels, 7 x 7 bins, channels_last",
    ),
    TurnsHeadline(
        "roi_align",
        "roi_align_gpu.json",
        "roi_align",
        {**_ROIS, "dtype": "float32", "phase": "backward"},
        "float32, backward, 1,024 boxes of 256 channels, 7 x 7 bins, channels_last",
    ),
    TurnsHeadline(
        "deform_conv2d",
        "deform_conv2d_gpu.json",
        "deform_conv2d",
        {"shape": [8, 256, 64, 64], "dtype": "float32", "tf32": "everywhere", "phase": "forward"},
        "float32 with TF32 on both sides, forward, 8 x 256 x 64 x 64, 3 x 3 taps",
    ),
    TurnsHeadline(
        "deform_conv2d",
        "deform_conv2d_gpu.json",
        "deform_conv2d",
        {"shape": [8, 256, 64, 64], "dtype": "float32", "tf32": "everywhere", "phase": "backward"},
        "float32 with TF32 on both sides, backward, 8 x 256 x 64 x 64, 3 x 3 taps",
    ),
)


def turns_tables(
    files: tuple[str, ...],
    heads: tuple[str, ...],
    cells: Callable[[Row], list[str]],
    peak: bool = False,
    only: Callable[[Row], bool] | None = None,
) -> str:
    """Return a table for each result file that is there.

    `heads` and `cells` are the columns that say what a case is; behind them come its time and the ratios, and with `peak`
    its memory, where that was measured. `only` says which rows there are; by default all.
    """
    found = [json.loads((RESULTS / file).read_text(encoding="utf-8")) for file in files if (RESULTS / file).is_file()]
    if only is not None:
        found = [{**result, "rows": [row for row in result["rows"] if only(row)]} for result in found]
    tables = ["\n".join(_table(result, heads, cells, peak)) for result in found]
    return "\n\n".join(tables) or "Nothing has been measured yet."


def turns_headlines(entries: tuple[TurnsHeadline, ...] = HEADLINES) -> list[Figure]:
    """Return the figures of `entries`. Raises LookupError where a result file is there and lacks the case of one."""
    return [_headline(entry) for entry in entries if (RESULTS / entry.file).is_file()]


def _headline(entry: TurnsHeadline) -> Figure:
    result = json.loads((RESULTS / entry.file).read_text(encoding="utf-8"))
    for row in result["rows"]:
        if all(row.get(key) == value for key, value in entry.case.items()) and entry.competitor in _faster(row):
            time = duration(row["seconds"]["opsmith"]["median"])
            against, speedup = NAMES[entry.competitor], _ratio(row, entry.competitor)
            return Figure(entry.operator, entry.page, entry.words, time, result["device"], against, speedup)
    raise LookupError(f"{entry.file} has no case {entry.case} with {entry.competitor}")


def _table(
    result: dict[str, Any], heads: tuple[str, ...], cells: Callable[[Row], list[str]], peak: bool
) -> Iterator[str]:
    rows = result["rows"]
    others = [name for name in NAMES if any(name in _faster(row) for row in rows)]
    has_peak = peak and any("peak_bytes" in row for row in rows)
    threads = f", {result['threads']} threads" if result["threads"] else ""
    vision = f", torchvision {result['torchvision']}" if result.get("torchvision") else ""
    yield f"**{result['device']}**{threads}, torch {result['torch']}{vision}, {result['date'][:10]}"
    yield ""
    clocks = [name for name in CLOCKS if any(name in row for row in rows)]
    more = [f"{CLOCKS[name]}{f', against {NAMES[others[0]]}' if others else ''}" for name in clocks]
    columns = [*heads, "time", *(f"against {NAMES[name]}" for name in others), *more]
    columns += ["peak memory"] if has_peak else []
    yield head_markdown(columns)
    for row in rows:
        times = [duration(row["seconds"]["opsmith"]["median"]), *(_ratio(row, name) for name in others)]
        times += [_by_another_clock(row.get(name), others[:1]) for name in clocks]
        memory = [f"{row['peak_bytes'] / 1e6:,.1f} MB"] if has_peak else []
        yield row_markdown([*cells(row), *times, *memory])


def _by_another_clock(compared: Row | None, others: list[str]) -> str:
    if compared is None:
        return "–"
    ratios = [_ratio(compared, name) for name in others if name in _faster(compared)]
    return ", ".join([duration(compared["seconds"]["opsmith"]["median"]), *ratios])


def _faster(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = row.get("times_faster", {})
    return found


def _ratio(row: Row, name: str) -> str:
    if name not in _faster(row):
        return "–"
    faster = _faster(row)[name]
    return f"{faster['median']:.1f}x [{faster['min']:.1f}, {faster['max']:.1f}]"
