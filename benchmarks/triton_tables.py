"""The tables of docs/guides/triton.md, from the results of triton_calls.py, triton_build.py and triton_twins.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from operator_tables import figures_in
from opsmith.report.markdown import head_markdown, row_markdown
from opsmith.report.units import duration

__all__ = ["triton_build_figures", "triton_call_figures", "triton_twin_figures"]

RESULTS = Path(__file__).resolve().parent / "results"
# What each contender of triton_calls.py is called, in the table's order.
CALLS = {
    "opsmith": "opsmith, Triton kernel",
    "cuda": "opsmith, CUDA kernel",
    "triton": "Triton, `kernel[grid](...)` and its result",
    "triton, launch": "Triton, `kernel[grid](...)` alone",
    "torch": "`torch.softmax`",
}
TWINS = ("lltm_gates_triton_gpu.json", "focal_loss_triton_gpu.json", "bias_act_triton_gpu.json")
CLOCKS = {"host": "host's time", "gpu": "GPU's time"}
# Rows of triton_build.py, each with what it is compared with.
BUILDS = {
    "opsmith": "`opsmith build`",
    "step": "its step that compiles the kernels",
    "triton, all": "Triton, as many specialisations",
    "triton": "Triton, one specialisation",
    "with torch": "Triton, one specialisation, and `import torch`",
}

_NOT_MEASURED = "Nothing has been measured yet."

Row = dict[str, Any]


def triton_call_figures() -> str:
    """Return the table of what a call takes."""
    content = _read("triton_calls.json")
    return _NOT_MEASURED if content is None else "\n".join(_calls(content))


def triton_build_figures() -> str:
    """Return the table of what a build takes."""
    content = _read("triton_build.json")
    return _NOT_MEASURED if content is None else "\n".join(_builds(content))


def triton_twin_figures() -> str:
    """Return the figures of the library's operators beside their twins in Triton."""
    return figures_in(*TWINS)


def _read(name: str) -> Row | None:
    file = RESULTS / name
    found: Row | None = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return found


def _calls(content: Row) -> Iterator[str]:
    names = [name for name in CALLS if any(name in row["seconds"] for row in content["rows"])]
    yield f"{content['device']}, torch {content['torch']}, Triton {content['triton']}, {content['date'][:10]}:"
    yield ""
    yield head_markdown(["a call of the softmax", *(CALLS[name] for name in names)])
    for row in content["rows"]:
        rows, columns = row["shape"]
        cells = [f"{CLOCKS[row['clock']]}, {rows:,} x {columns:,}, {row['dtype']}"]
        for name in names:
            seconds, faster = row["seconds"].get(name), row["times_faster"].get(name)
            time = "–" if seconds is None else duration(seconds["median"])
            cells.append(time if faster is None else f"{time}, {_times(faster, 2)}")
        yield row_markdown(cells)


def _builds(content: Row) -> Iterator[str]:
    seconds, ratios = content["seconds"], content["of_triton"]
    machine = f"{content['device']}, {content['cores']} cores"
    versions = f"torch {content['torch']}, Triton {content['triton']}"
    yield f"{machine}, {versions}, {content['date'][:10]}, {seconds['opsmith']['count']} rounds:"
    yield ""
    yield row_markdown(["one kernel for one architecture, cold", "time", "`opsmith build` takes"])
    yield "|---|---|---|"
    for name, words in BUILDS.items():
        time = f"{seconds[name]['median']:.2f} s [{seconds[name]['min']:.2f}, {seconds[name]['max']:.2f}]"
        ratio = ratios.get(f"opsmith / {name}")
        yield row_markdown([words, time, "" if ratio is None else _times(ratio, 2)])


def _times(values: dict[str, float], digits: int) -> str:
    return f"{values['median']:.{digits}f}x [{values['min']:.{digits}f}, {values['max']:.{digits}f}]"
