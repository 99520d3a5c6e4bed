"""The eight rows of the README's table and its picture, from the same results as docs/results/figures.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from detection_tables import training_figure
from headline import Figure
from operator_tables import Headline, headlines
from summary_plot import bars_of, draw
from toolkit_tables import read
from turns_tables import TurnsHeadline, turns_headlines

__all__ = ["picture", "summary"]

_OPERATORS = (
    Headline("lltm", "lltm_cell_gpu.json", "lltm_cell", "B 16, I 32, S 128", "float32", "both", "compiled"),
    Headline("mlp", "mlp_gpu.json", "mlp", "B 8192, F 1024, H 4096, O 1024", "bfloat16", "both"),
)
_TURNS = (
    TurnsHeadline(
        "nms",
        "nms_gpu.json",
        "nms",
        {"function": "nms", "kind": "random", "threshold": 0.5, "boxes": 20000},
        "20,000 random boxes",
    ),
)

Row = tuple[str, str, str, str]


def summary() -> str:
    """Return the table, and below it where its first rows were measured. A row without its result file is left out."""
    lines = ["| what | opsmith | baseline | speedup |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in _rows()), "", _machine()])


def picture() -> str:
    """Return the rows that have a speedup as an SVG."""
    return draw(bars_of(_rows()))


def _rows() -> list[Row]:
    rows = [*_builds(), *_calls(), *_checks(), *(_operator(figure) for figure in headlines(_OPERATORS))]
    rows += [_operator(figure) for figure in turns_headlines(_TURNS)]
    figure = training_figure("mask_rcnn_r50", 2, "bfloat16")
    return rows if figure is None else [*rows, figure]


def _machine() -> str:
    results = read("build_time.json")
    if results is None:
        return ""
    machine = results["machine"]
    return (
        f"Where no machine is named: {machine['cpu']}, {machine['cores']} cores, torch {results['torch']}, "
        f"{results['date'][:10]}."
    )


def _builds() -> Iterator[Row]:
    if (results := read("build_time.json")) is not None:
        cpp = results["cpp"]
        baseline = f"`torch.utils.cpp_extension`: {_seconds(cpp['theirs_s'])}"
        yield "build a C++ operator", _seconds(cpp["ours_s"]), baseline, _speedup(cpp["times_faster"])
        if cuda := results.get("cuda"):
            baseline = f"nvcc with `torch/extension.h`: {_seconds(cuda['theirs_s'])}"
            yield "build a CUDA operator", _seconds(cuda["ours_s"]), baseline, _speedup(cuda["times_faster"])


def _calls() -> Iterator[Row]:
    if (results := read("call_time.json")) is not None:
        seconds = results["rows"]["no gradient"]["seconds"]
        times = {name: f"{spread['median'] * 1e6:.2f} us" for name, spread in seconds.items()}
        baseline = f"`torch.library.custom_op`: {times['torch.library.custom_op']}; `torch.add`: {times['torch.add']}"
        faster = _than_custom_op(results)
        if (newest := read("call_time_newest.json")) is not None:
            faster += f"; with torch {newest['torch'].partition('+')[0]} {_than_custom_op(newest)}"
        yield "call an operator that adds 8 elements", times["opsmith"], baseline, faster


def _than_custom_op(results: Any) -> str:
    """Return how many times as fast as custom_op a call is where no gradient is needed."""
    share: dict[str, Any] = results["rows"]["no gradient"]["of_baseline"]["torch.library.custom_op"]
    return f"{1 / share['median']:.1f}x [{1 / share['high']:.1f}, {1 / share['low']:.1f}]"


def _checks() -> Iterator[Row]:
    if (results := read("check_score.json")) is not None:
        others = f"`torch.library.opcheck`: {results['score']['opcheck']['found']} of {results['defects']}"
        if (planted := read("planted.json")) is not None:
            classes = [kinds["defects"] for kinds in planted["classes"].values() if "defects" in kinds]
            right, total = (sum(count[at] for counts in classes for count in counts.values()) for at in (0, 1))
            seeds = len({seed for counts in classes for seed in counts})
            yield f"find planted defects, {seeds} seeds", f"{right} of {total}", others, "–"


def _operator(figure: Figure) -> Row:
    what = f"{figure.link('docs/operators/')}, {figure.case}, {figure.machine}"
    return what, figure.time, figure.against, figure.speedup


def _seconds(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} s"


def _speedup(spread: dict[str, float]) -> str:
    return f"{spread['median']:.1f}x [{spread['min']:.1f}, {spread['max']:.1f}]"
