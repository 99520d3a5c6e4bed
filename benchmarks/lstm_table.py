"""The table of lltm_against_lstm.py: an LLTM over a sequence, torch.nn.LSTM, and a loop over the definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opsmith.report.units import duration

__all__ = ["against_lstm", "few_against_lstm"]

RESULTS = Path(__file__).resolve().parent / "results" / "lltm_lstm_gpu.json"
_PHASES = {"forward": "forward", "both": "forward and backward"}


def against_lstm() -> str:
    """Return a row for each size, type and phase, with the times of the GPU and of the host's clock."""
    return _table(tuple(_PHASES))


def few_against_lstm() -> str:
    """Return the same table without the rows of the forward alone."""
    return _table(("both",))


def _table(phases: tuple[str, ...]) -> str:
    if not RESULTS.is_file():
        return "Nothing has been measured yet."
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    machine = results["machine"]
    lines = [
        f"On {machine['gpu']}, torch {machine['torch']}, cuDNN {machine['cudnn']}, {results['date'][:10]}; medians of "
        f"{results['rows'][0]['rounds']} interleaved rounds, ratios with 95 % intervals. Cells: GPU time / wall-clock "
        "time, which is what a program waits for.",
        "",
        "| steps, batch, input, state | dtype and phase | opsmith | `nn.LSTM`, relative | a loop, relative |",
        "|---|---|---|---|---|",
    ]
    return "\n".join(lines + [_row(row) for row in results["rows"] if row["phase"] in phases])


def _row(row: dict[str, Any]) -> str:
    sizes = ", ".join(str(row[name]) for name in ("steps", "batch", "input", "state"))
    ours = row["seconds"]["opsmith"]
    times = " / ".join(duration(ours[clock]["median"]) for clock in ("device", "host"))
    rivals = [
        " / ".join(_ratio(row["times_faster"][rival][clock]) for clock in ("device", "host"))
        for rival in ("lstm", "loop")
    ]
    return f"| {sizes} | {row['dtype']}, {_PHASES[row['phase']]} | {times} | {' | '.join(rivals)} |"


def _ratio(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f}x [{spread['low']:.2f}, {spread['high']:.2f}]"
