"""The tables of docs/guides/detection.md, from the results of benchmarks/detection*.py."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from detection_kinds import by_kind
from opsmith.report.markdown import head_markdown, row_markdown
from opsmith.report.units import duration

__all__ = ["detection_figures", "digits_figures", "profile_figures", "scaling_figures", "training_figure"]

RESULTS = Path(__file__).resolve().parent / "results"
MODELS = {
    "mask_rcnn_r50": "Mask R-CNN R50-FPN",
    "retinanet_r50": "RetinaNet R50-FPN",
    "digits_small": "Mask R-CNN of `digits_small.yaml`",
}
PRECISIONS = {"bfloat16": "bf16", "tf32": "fp32 with TF32", "float32": "fp32"}
# What each competitor is called in a heading; "opsmith eager" is the same code without the graph, "opsmith recompute" that
# with `model.recompute=true`.
OTHERS = {
    "opsmith eager": "without the graph",
    "opsmith recompute": "recomputing",
    "torchvision": "torchvision",
    "channels_last": "torchvision, channels_last",
    "compiled": "torchvision, compiled",
}

Row = dict[str, Any]


def detection_figures() -> str:
    """Return a table for each result file that is there."""
    files = [RESULTS / f"detection_{device}.json" for device in ("gpu", "cpu")]
    return "\n\n".join(_table(json.loads(file.read_text(encoding="utf-8"))) for file in files if file.is_file())


def training_figure(model: str, batch: int, precision: str) -> tuple[str, str, str, str] | None:
    """Return what a training step is, its time, what it is compared with, and the speedup, of the GPU's results."""
    file = RESULTS / "detection_gpu.json"
    if not file.is_file():
        return None
    content = json.loads(file.read_text(encoding="utf-8"))
    wanted = {"phase": "training", "model": model, "batch": batch, "precision": precision}
    row: Row = next(row for row in content["rows"] if wanted.items() <= row.items())
    seconds, name = row["seconds"], MODELS[model]
    return (
        f"[{name}](docs/guides/detection.md), {PRECISIONS[precision]}, training step of {batch} images, {gpu_of(content)}",
        duration(seconds["opsmith"]["median"]),
        f"torchvision: {duration(seconds['torchvision']['median'])}",
        _speedup(row["times_faster"]["torchvision"]),
    )


def profile_figures() -> str:
    """Return where the time of a step goes: a table for each case of benchmarks/detection_profile.py; "" without results."""
    file = RESULTS / "detection_profile.json"
    if not file.is_file():
        return ""
    content = json.loads(file.read_text(encoding="utf-8"))
    tables = [
        f"{content['device']}, torch {content['torch']}, {content['date'][:10]}; milliseconds a step, and launches:"
    ]
    return "\n\n".join([*tables, *map(_profile_table, content["rows"])])


def _profile_table(row: Row) -> str:
    steps = {name: (step, by_kind(step["kernels"])) for name, step in row["steps"].items()}
    case = f"{MODELS[row['model']]}, batch {row['batch']}, {PRECISIONS[row['precision']]}"
    lines = [head_markdown([case, *("opsmith" if name == "opsmith" else OTHERS[name] for name in steps)])]
    for kind in dict.fromkeys(kind for _, kinds in steps.values() for kind in kinds):
        times = [kinds.get(kind, (0.0, 0.0)) for _, kinds in steps.values()]
        lines.append(row_markdown([kind, *(f"{1e3 * seconds:.2f} ({count:.0f})" for seconds, count in times)]))
    waiting = [max(0.0, step["seconds"] - step["busy_s"]) for step, _ in steps.values()]
    lines.append(row_markdown(["no kernel runs", *(f"{1e3 * seconds:.2f}" for seconds in waiting)]))
    lines.append(row_markdown(["**a step**", *(f"{1e3 * step['seconds']:.2f}" for step, _ in steps.values())]))
    return "\n".join(lines)


def scaling_figures() -> str:
    """Return what several GPUs do of the work of one, from benchmarks/detection_scaling.py: a table for each result file."""
    files = RESULTS.glob("detection_scaling*.json")
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return "\n\n".join(map(_scaling_table, sorted(contents, key=lambda content: str(content["date"]), reverse=True)))


def _scaling_table(content: dict[str, Any]) -> str:
    head = ["", "GPUs", "images/s", "of so many times one GPU", "NCCL alone", "first step, empty store", "full store"]
    lines = [
        f"Mask R-CNN R50-FPN, 800 x 1344, bf16, {content['batch']} images a GPU; GPUs of one host, {content['device']}, "
        f"torch {content['torch']}, {content['date'][:10]}:",
        "",
        head_markdown(head),
    ]
    for row in content["rows"]:
        speed, first = row["images_per_second"], row["first_step_s"]
        ways = {"ddp": "DistributedDataParallel", "fsdp": "FSDP2"}
        cells = [
            f"{ways[row['kind']]}, {'a CUDA graph' if row['graph'] else 'eager'}",
            str(row["gpus"]),
            f"{speed['median']:.0f} [{speed['min']:.0f}, {speed['max']:.0f}]",
            f"{row['efficiency']:.1%}",
            f"{row['communication']['alone']:.1%}",
            *(f"{first[store]:.0f} s" if store in first else "–" for store in ("cold", "warm")),
        ]
        lines.append(row_markdown(cells))
    return "\n".join([*lines, *_note(content)])


def digits_figures() -> str:
    """Return what trainings on the digits reach, from benchmarks/detection_digits.py: a table for each result file."""
    files = [RESULTS / f"detection_digits_{device}.json" for device in ("gpu", "cpu")]
    return "\n\n".join(_digits_table(json.loads(file.read_text(encoding="utf-8"))) for file in files if file.is_file())


def _digits_table(content: dict[str, Any]) -> str:
    runs = content["runs"]
    sides = [side for side in ("ours", "torchvision") if side in runs[0]]
    names = {
        "mask/AP": "mask AP",
        "mask/AP50": "mask AP50",
        "box/AP": "box AP",
        "box/AP50": "box AP50",
        "step_ms": "ms a step",
        "training_s": "seconds",
    }
    head = ["", *names.values()]
    seeds = f"{len(runs)} seeds" if len(runs) > 1 else "One seed"
    spread = ", mean and standard deviation" if len(runs) > 1 else ""
    lines = [
        f"{seeds} of `configs/{content['config']}` with {', '.join(content['overrides'])}{spread}; "
        f"{content['device']}, torch {content['torch']}, {content['date']}{_beside(content)}:",
        "",
        head_markdown(head),
    ]
    for side in sides:
        cells = []
        for name in names:
            values, digits = [run[side][name] for run in runs], 3 if "AP" in name else 1
            deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.{digits}f}{deviation}")
        lines.append(row_markdown(["opsmith" if side == "ours" else side, *cells]))
    return "\n".join(lines)


def gpu_of(content: dict[str, Any]) -> str:
    """Return a GPU's name without its memory."""
    return " ".join(str(content["device"]).split()[:2])


def _table(content: dict[str, Any]) -> str:
    rows: list[Row] = content["rows"]
    others = [name for name in OTHERS if any(name in row["times_faster"] for row in rows)]
    has_memory = any("peak_bytes" in row for row in rows)
    head = ["", "images/s", *(OTHERS[name] for name in others)]
    head += ["waits of a call, torchvision's", "memory, of torchvision's"] if has_memory else []
    machine = content["device"] + (f", {content['threads']} threads" if content["threads"] else "")
    lines = [
        f"{machine}, torch {content['torch']}, torchvision {content['torchvision']}, {content['date'][:10]}:",
        "",
        head_markdown(head),
    ]
    lines += [row_markdown(_cells(row, others, has_memory=has_memory)) for row in rows]
    return "\n".join([*lines, *_note(content)])


def _cells(row: Row, others: list[str], *, has_memory: bool) -> list[str]:
    seconds = row["seconds"]["opsmith"]["median"]
    cells = [
        f"{MODELS[row['model']]}, {row['phase']}, batch {row['batch']}, {PRECISIONS[row['precision']]}",
        f"{row['batch'] / seconds:.0f}, {duration(seconds)} a call",
        *(_speedup(row["times_faster"].get(name)) for name in others),
    ]
    if has_memory:
        waits, peak = row["waits"], row["peak_bytes"]
        parts = {name: f"{peak[name] / peak['torchvision']:.2f}x" for name in peak if name.startswith("opsmith")}
        recomputing = f", recomputing {parts['opsmith recompute']}" if "opsmith recompute" in parts else ""
        cells += [f"{waits['opsmith']}, {waits['torchvision']}", parts["opsmith"] + recomputing]
    return cells


def _note(content: dict[str, Any]) -> list[str]:
    """Return what was not taken in the same run, or not alone, as lines below a table."""
    return ["", f"{content['note']}."] if "note" in content else []


def _beside(content: dict[str, Any]) -> str:
    return f", beside {content['beside']}" if "beside" in content else ""


def _speedup(values: dict[str, float] | None) -> str:
    return "–" if values is None else f"{values['median']:.2f}x [{values['min']:.2f}, {values['max']:.2f}]"
