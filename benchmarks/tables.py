"""Make the tables of README and docs from the results of the benchmarks; `--check` only says whether they are current."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lstm_table import against_lstm
from nms_tables import nms_figures
from operator_tables import figures, headlines
from opsmith.bench.render.as_json import reports_from
from roi_align_tables import roi_align_figures

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"


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
        f"**Planted defects noticed** among {count} small operators with one defect each (tests/check/planted; torch "
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
        path = HERE / "results" / name
        if path.is_file():
            parts.append("\n".join(make(json.loads(path.read_text(encoding="utf-8")))))
    return "\n\n".join(parts)


def bench_screen() -> str:
    """What `opsmith bench` has printed, from the report that it has written."""
    path = HERE / "results" / "lltm_cell_cpu.json"
    if not path.is_file():
        return ""
    (report,) = reports_from(json.loads(path.read_text(encoding="utf-8")))
    sizes = dict.fromkeys(timing.workload for timing in report.timings)
    phases = dict.fromkeys(timing.phase for timing in report.timings)
    options = [f"--phase={phase}" for phase in phases]
    options += [f"--size={size.replace(', ', ',').replace(' ', '=')}" for size in sizes]
    typed = f"$ opsmith bench opsmith.ops.lltm::lltm_cell {' '.join(options)}"
    command = " \\\n".join(textwrap.wrap(typed, 118, subsequent_indent="    ", break_on_hyphens=False))
    return "\n".join(["```console", command, str(report), "```"])


def _cells(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def compare_trust() -> str:
    """How often --compare is right, by the number of processes on each side."""
    path = HERE / "results" / "compare_trust.json"
    if not path.is_file():
        return ""
    results = json.loads(path.read_text(encoding="utf-8"))
    machine, slower = results["machine"], list(results["rows"][0]["found"])
    lines = [
        f"`opsmith bench {results['what']}` on {machine['cores']} cores of a shared machine ({machine['name']}, "
        f"{results['date'][:10]}): how many of the comparisons exit with 1.",
        "",
        f"| processes then, now | the same program | {' | '.join(f'{factor} times as slow' for factor in slower)} |",
        "|---" * (2 + len(slower)) + "|",
    ]
    for row in results["rows"]:
        counts = [row["false_alarms"], *row["found"].values()]
        lines.append(
            _cells([f"{row['then']}, {row['now']}", *(f"{count} of {row['comparisons']}" for count in counts)])
        )
    return "\n".join(lines)


def check_screen() -> str:
    """What `opsmith check` has printed for the README's first operator, and where."""
    path = HERE / "results" / "check_screen.json"
    if not path.is_file():
        return ""
    results = json.loads(path.read_text(encoding="utf-8"))
    machine = results["machine"]
    where = f"(On {machine['cores']} cores, {machine['name']}, torch {machine['torch']}, {results['date'][:10]}.)"
    return "\n".join(["```console", f"$ {results['command']}", results["screen"].rstrip(), "```", "", where])


def gradient_floor() -> str:
    """How far below eager a gradient of five inputs can be, whatever its kernels do."""
    lines = []
    for device in ("cpu", "gpu"):
        path = HERE / "results" / f"gradient_floor_{device}.json"
        if not path.is_file():
            continue
        results = json.loads(path.read_text(encoding="utf-8"))
        threads = f", {results['threads']} threads" if results["device"] == "cpu" else ""
        sizes = ", ".join(f"{name} {size}" for name, size in results["sizes"].items())
        lines += [
            f"Forward and backward on {results['machine']}{threads}, torch {results['torch']}, {results['date'][:10]}, by "
            f"the host's clock; float32, {sizes}:",
            "",
            "| what | time | times as fast as eager |",
            "|---|---|---|",
        ]
        names = {
            "eager": "eager",
            "mlp": "`mlp`",
            "nothing": "an operator like it whose kernels only allocate",
            "cat": "`torch.cat` of five single elements",
        }
        for name, words in names.items():
            seconds = results["seconds"][name]
            lines.append(_cells([words, f"{seconds * 1e6:.1f} us", f"{results['eager_over'][name]:.2f}x"]))
        lines.append("")
    return "\n".join(lines).rstrip() or "Nothing has been measured yet."


# What stands between two marks of a page. "figures", which an operator's page has, is another for each page.
REGIONS: dict[str, Callable[[], str]] = {
    "tables": tables,
    "operators": headlines,
    "floor": gradient_floor,
    "check": check_screen,
    "bench": bench_screen,
    "compare": compare_trust,
    "lstm": against_lstm,
    "nms": nms_figures,
    "roi_align": roi_align_figures,
}
PAGES = (README, *sorted((README.parent / "docs").glob("*.md")))


def filled(page: str, text: str) -> str:
    """Return the text of a page, whose name without its ending is `page`, with its regions made anew."""
    for name, make in {**REGIONS, "figures": lambda: figures(page)}.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        if found:
            _, closed, after = rest.partition(end)
            if not closed:
                raise ValueError(f"{page}: {begin} has no {end}")
            text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if not arguments.check:
            page.write_text(filled(page.stem, text), encoding="utf-8")
        elif filled(page.stem, text) != text:
            sys.exit(f"{page.name} is not what benchmarks/results say; run `python benchmarks/tables.py`")


if __name__ == "__main__":
    main()
