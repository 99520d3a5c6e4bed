"""The README's tables of builds, calls and checks, from what the programs beside this one have written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["tables"]

RESULTS = Path(__file__).resolve().parent / "results"


def build_time(results: dict[str, Any]) -> Iterator[str]:
    machine = results["machine"]
    yield f"**Builds** ({machine['cores']} cores, {machine['cpu']}, torch {results['torch']}, {results['date'][:10]})"
    yield ""
    yield "| cold build of one kernel | opsmith | baseline | times faster | peak memory |"
    yield "|---|---|---|---|---|"
    names = {
        "cpp": "C++, against `torch.utils.cpp_extension.load_inline`",
        "cuda": "CUDA, against nvcc alone with `torch/extension.h`",
    }
    for key, name in names.items():
        if key in results:
            row = results[key]
            ours, theirs = (row[f"{who}_peak_bytes"]["median"] / 1e6 for who in ("ours", "theirs"))
            cells = [name, seconds(row["ours_s"]), seconds(row["theirs_s"]), ratio(row["times_faster"])]
            yield f"| {' | '.join(cells)} | {ours:,.0f} against {theirs:,.0f} MB |"
    warm = results["warm"]
    yield ""
    yield "| in a new process | |"
    yield "|---|---|"
    yield f"| `import opsmith`, over `import torch` | {milliseconds(warm['import_opsmith_s'])} |"
    started = warm["started_programs"]
    yield f"| first call's load, from the store | {milliseconds(warm['load_s'])}, {started} programs started |"


def existing_build(results: dict[str, Any]) -> Iterator[str]:
    machine, build, warm, race = (results[name] for name in ("machine", "build", "warm", "race"))
    where = results.get("gpu") or f"{machine['cores']} cores, {machine['cpu']}"
    yield f"**Unchanged extensions** ({where}, torch {results['torch']}, {results['date'][:10]})"
    yield ""
    yield "| `load` of one file with `torch/extension.h` | opsmith | `torch.utils.cpp_extension` | times faster |"
    yield "|---|---|---|---|"
    rows = [
        ("C++, empty store, -O3 against PyTorch's -O0", "cold", "theirs", ""),
        ("C++, empty store, -O3 both", "cold", "theirs_O3", "_both_O3"),
        ("C++, header precompiled, -O3 against PyTorch's -O0", "header_warm", "theirs", ""),
        ("C++, header precompiled, -O3 both", "header_warm", "theirs_O3", "_both_O3"),
        ("C++, header precompiled, -O0 both", "header_warm_O0", "theirs", ""),
    ]
    for name, ours, theirs, suffix in rows:
        if f"{theirs}_s" in build:
            cells = [seconds(build[f"{ours}_s"]), seconds(build[f"{theirs}_s"])]
            yield f"| {name} | {' | '.join(cells)} | {ratio(build[f'{ours}{suffix}_times_faster'])} |"
    if "cuda" in results:
        cuda = results["cuda"]
        cells = [seconds(cuda["ours_s"]), seconds(cuda["theirs_s"]), ratio(cuda["times_faster"])]
        yield f"| CUDA, empty store | {' | '.join(cells)} |"
    cells = [f"{milliseconds(warm[f'{who}_s'])}, {warm[f'{who}_programs']} programs" for who in ("ours", "theirs")]
    yield f"| finished, in a new process, with the tool's import | {' | '.join(cells)} | |"
    yield ""
    beside = ""
    if "ratio" in race:
        beside = (
            f", and {ratio(race['ratio'])} of what it takes while {race['racers'] - 1} that have imported torch sleep: "
            "their memory alone makes the compiler slower"
        )
    yield (
        f"{race['racers']} processes that ask for one extension at once build it once, in {ratio(race['ratio_to_alone'])} "
        f"of the time that one takes alone{beside}."
    )


def real_packages(results: dict[str, Any]) -> Iterator[str]:
    machine = results["machine"]
    yield (
        f"**Packages from PyPI, unchanged, through `opsmith run -- pip install`** ({machine['cores']} cores, torch "
        f"{machine['torch']}, {machine['date'][:10]}; one build each, so the times have no spread)"
    )
    yield ""
    yield "| package | opsmith | PyTorch's tool | times faster | its own tests, on both builds |"
    yield "|---|---|---|---|---|"
    for entry in results["packages"]:
        ours, theirs = entry["build_s"]["opsmith"], entry["build_s"]["torch"]
        if tests := entry.get("tests"):
            same = (
                "the same" if tests["opsmith"] == tests["torch"] else f"with PyTorch's tool {tests['torch']['passed']}"
            )
            outcome = f"{tests['opsmith']['passed']} pass, {tests['opsmith']['failed']} fail; {same}"
        else:
            outcome = "none in its sdist; results are " + (
                "equal to the last bit" if entry["same_result"] else "not equal"
            )
        yield f"| {entry['package']} | {ours:.0f} s | {theirs:.0f} s | {theirs / ours:.1f}x | {outcome} |"


def foreign_binary(results: dict[str, Any]) -> Iterator[str]:
    rows = results["rows"]
    devices = sorted({row["device"] for row in rows})
    worst = max(row["error_of_allowed"] for row in rows)
    names = ", ".join(sorted({row["operator"] for row in rows}))
    yield "**One binary**"
    yield ""
    yield (
        f"Libraries built with torch 2.13.0 (CPU) and Python 3.11, loaded by torch {results['torch']} and Python "
        f"{results['python']} on {results['gpu']} without opsmith: {names} on {' and '.join(devices)} in four element "
        f"types, all right (largest error {worst:.2f} of what the type's rounding allows; {results['date'][:10]})."
    )


def check_score(results: dict[str, Any]) -> Iterator[str]:
    """How many of the planted defects two tools notice, and how many of the same operators without them they blame."""
    machine, count = results["machine"], results["defects"]
    yield (
        f"**Planted defects noticed** among {count} small operators with one defect each (tests/checker/planted; torch "
        f"{machine['torch']}, {machine['date']})"
    )
    yield ""
    yield "| | noticed | by the right name | correct operators blamed |"
    yield "|---|---|---|---|"
    names = {"opcheck": "`torch.library.opcheck`", "opsmith": "`opsmith check`"}
    for tool, score in results["score"].items():
        right = f"{score['found']}" if tool == "opsmith" else "it gives none"
        yield f"| {names[tool]} | {score['found']} | {right} | {score['false_alarms']} |"


def call_time(results: dict[str, Any]) -> Iterator[str]:
    """The rows of a result of call_time.py. "bridge", where it is there, holds the seconds to build and to load it."""
    machine = results["machine"]
    where = machine["gpu"] or f"{machine['cores']} cores, {machine['cpu']}"
    kind = "the host's time, nothing waits for the GPU" if machine["gpu"] else "float32"
    interval = "95 % intervals" if "interval" in results else "quartiles"
    yield (
        f"**A call** ({where}, torch {results['torch']}, {results['date'][:10]}; 8 elements, {kind}; medians of "
        f"interleaved rounds, ratios with their {interval})"
    )
    yield ""
    for rows in _with_equal_baselines(results["rows"].values()):
        names = [f"`{name}`" if name.startswith("torch.") else name for name in rows[0]["of_baseline"]]
        yield f"| | opsmith | {' | '.join(names)} |"
        yield "|---" * (2 + len(names)) + "|"
        for row in rows:
            of = row["of_baseline"]
            cells = [f"{microseconds(row['seconds'][name])}: {share(of[name])}" for name in of]
            yield f"| {row['what']} | {microseconds(row['seconds']['opsmith'])} | {' | '.join(cells)} |"
        yield ""
    yield "Behind the colon stands what opsmith takes of it."
    yield ""
    yield "| an LLTM training step: steps, batch, input, state | peak memory | by hand | saved | by hand |"
    yield "|---|---|---|---|---|"
    for row in results["memory"]:
        size = ", ".join(str(row[name]) for name in ("steps", "batch", "input", "state"))
        sizes = [row[who][what] for what in ("peak_bytes", "saved_bytes") for who in ("opsmith", "by hand")]
        yield f"| {size} | {' | '.join(f'{count / 1e6:,.2f} MB' for count in sizes)} |"
    if "bridge" in results:
        bridge = results["bridge"]
        yield ""
        yield (
            f"The bridge, which does this, is built in the background once for each torch, in {seconds(bridge['build_s'])}; "
            f"loading it takes {milliseconds(bridge['load_s'])}."
        )


def _with_equal_baselines(rows: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows that are measured against the same baselines share a table."""
    return [list(group) for _, group in itertools.groupby(rows, key=lambda row: list(row["of_baseline"]))]


# Result file -> the lines of its table, in the order of the README.
TABLES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "build_time.json": build_time,
    "existing_build.json": existing_build,
    "existing_build_gpu.json": existing_build,
    "real_packages.json": real_packages,
    "call_time.json": call_time,
    "call_time_gpu.json": call_time,
    "foreign_binary.json": foreign_binary,
    "check_score.json": check_score,
}


def seconds(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} s [{spread['min']:.2f}, {spread['max']:.2f}]"


def milliseconds(spread: dict[str, float]) -> str:
    return f"{spread['median'] * 1e3:.1f} ms [{spread['min'] * 1e3:.1f}, {spread['max'] * 1e3:.1f}]"


def microseconds(spread: dict[str, float]) -> str:
    return f"{spread['median'] * 1e6:.2f} us"


def share(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} [{spread['low']:.2f}, {spread['high']:.2f}]"


def ratio(spread: dict[str, float]) -> str:
    return f"{spread['median']:.1f}x [{spread['min']:.1f}, {spread['max']:.1f}]"


def tables() -> str:
    parts = []
    for name, make in TABLES.items():
        path = RESULTS / name
        if path.is_file():
            parts.append("\n".join(make(json.loads(path.read_text(encoding="utf-8")))))
    return "\n\n".join(parts)
