"""Tables of builds, calls and checks for docs/results/figures.md, from the results of the programs in this folder."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["REGIONS", "read", "toolkit_table"]

RESULTS = Path(__file__).resolve().parent / "results"

Result = dict[str, Any]


def build_time(results: Result) -> Iterator[str]:
    yield _machine(results)
    yield ""
    yield "| cold build of one kernel | opsmith | baseline | speedup | peak memory |"
    yield "|---|---|---|---|---|"
    names = {
        "cpp": "C++, against `torch.utils.cpp_extension.load_inline`",
        "cuda": "CUDA, against nvcc on a file with `torch/extension.h`",
    }
    for key, name in names.items():
        if key in results:
            row = results[key]
            ours, theirs = (row[f"{who}_peak_bytes"]["median"] / 1e6 for who in ("ours", "theirs"))
            cells = [name, seconds(row["ours_s"]), seconds(row["theirs_s"]), ratio(row["times_faster"])]
            yield f"| {' | '.join(cells)} | {ours:,.0f} MB, {theirs:,.0f} MB |"
    warm = results["warm"]
    yield ""
    yield "| in a new process | time |"
    yield "|---|---|"
    yield f"| `import opsmith`, after `import torch` | {milliseconds(warm['import_opsmith_s'])} |"
    yield f"| loading a built operator | {milliseconds(warm['load_s'])}, {_programs(warm['started_programs'])} |"


def existing_build(results: Result) -> Iterator[str]:
    build, warm, race = (results[name] for name in ("build", "warm", "race"))
    yield _machine(results)
    yield ""
    yield "| `load` of one file with `torch/extension.h` | opsmith | `torch.utils.cpp_extension` | speedup |"
    yield "|---|---|---|---|"
    rows = [
        ("C++, empty store, -O3 against PyTorch's -O0", "cold", "theirs", ""),
        ("C++, empty store, -O3 both", "cold", "theirs_O3", "_both_O3"),
        ("C++, precompiled header, -O3 against PyTorch's -O0", "header_warm", "theirs", ""),
        ("C++, precompiled header, -O3 both", "header_warm", "theirs_O3", "_both_O3"),
        ("C++, precompiled header, -O0 both", "header_warm_O0", "theirs", ""),
    ]
    for name, ours, theirs, suffix in rows:
        if f"{theirs}_s" in build:
            cells = [seconds(build[f"{ours}_s"]), seconds(build[f"{theirs}_s"])]
            yield f"| {name} | {' | '.join(cells)} | {ratio(build[f'{ours}{suffix}_times_faster'])} |"
    if "cuda" in results:
        cuda = results["cuda"]
        cells = [seconds(cuda["ours_s"]), seconds(cuda["theirs_s"]), ratio(cuda["times_faster"])]
        yield f"| CUDA, empty store | {' | '.join(cells)} |"
    cells = [f"{milliseconds(warm[f'{who}_s'])}, {_programs(warm[f'{who}_programs'])}" for who in ("ours", "theirs")]
    yield f"| already built, in a new process, with the import of the tool | {' | '.join(cells)} | |"
    yield ""
    beside = ""
    if "ratio" in race:
        beside = (
            f", or {ratio(race['ratio'])} what it takes while {race['racers'] - 1} processes that have imported torch "
            "sleep, whose memory alone slows the compiler down"
        )
    yield (
        f"{race['racers']} processes that load one extension at the same time build it once. It takes them "
        f"{ratio(race['ratio_to_alone'])} what one process takes alone{beside}."
    )


def real_packages(results: Result) -> Iterator[str]:
    machine = results["machine"]
    yield (
        f"{machine['cores']} cores, torch {machine['torch']}, {machine['date'][:10]}; one build each, so the times have "
        "no spread."
    )
    yield ""
    yield "| package | opsmith | PyTorch's tool | speedup | its own tests, on both builds |"
    yield "|---|---|---|---|---|"
    for entry in results["packages"]:
        ours, theirs = entry["build_s"]["opsmith"], entry["build_s"]["torch"]
        if tests := entry.get("tests"):
            same = (
                "the same" if tests["opsmith"] == tests["torch"] else f"with PyTorch's tool {tests['torch']['passed']}"
            )
            outcome = f"{tests['opsmith']['passed']} pass, {tests['opsmith']['failed']} fail; {same}"
        else:
            equal = "bitwise equal" if entry["same_result"] else "not equal"
            outcome = f"none in its sdist; the results are {equal}"
        yield f"| {entry['package']} | {ours:.0f} s | {theirs:.0f} s | {theirs / ours:.1f}x | {outcome} |"


def foreign_binary(results: Result) -> Iterator[str]:
    rows = results["rows"]
    devices = sorted({row["device"] for row in rows})
    worst = max(row["error_of_allowed"] for row in rows)
    names = ", ".join(sorted({f"`{row['operator']}`" for row in rows}))
    yield (
        f"Built with torch 2.13.0 (CPU) and Python 3.11; loaded without opsmith by torch {results['torch']} and Python "
        f"{results['python']} on {results['gpu']}. {names} run on {' and '.join(devices)} in four dtypes and are all "
        f"correct: the largest error is {worst:.2f} of what the dtype's rounding allows ({results['date'][:10]})."
    )


def ship_time(results: Result) -> Iterator[str]:
    loads = [item["load_average"] for item in results["rounds"]]
    yield (
        f"{results['machine']}, {results['cores']} cores, torch {results['rounds'][0]['torches'][0]}, "
        f"{results['date'][:10]}; {len(loads)} rounds, at the end of which the load average was "
        f"{', '.join(f'{load:.0f}' for load in loads)}. {results['conditions']}".rstrip()
    )
    yield ""
    yield "| step | time | processor time |"
    yield "|---|---|---|"
    for step in results["rounds"][0]["steps"]:
        if step not in ("install torch", "get torches"):
            taken = [item["steps"][step] for item in results["rounds"]]
            yield f"| {step} | {_seconds_of(taken, 's')} | {_seconds_of(taken, 'processor_s')} |"
    totals = [{"s": item["total_s"], "processor_s": item["processor_s"]} for item in results["rounds"]]
    target = f"target {results['target']['most_s']:.0f} s: {'met' if results['target']['met'] else 'not met'}"
    yield f"| all of it ({target}) | {_seconds_of(totals, 's')} | {_seconds_of(totals, 'processor_s')} |"


def _seconds_of(taken: list[dict[str, float]], key: str) -> str:
    values = [item[key] for item in taken]
    return f"{statistics.median(values):.1f} s [{min(values):.1f}, {max(values):.1f}]"


def check_score(results: Result) -> Iterator[str]:
    """Yield how many planted defects each tool finds, and how many of the same operators without them it fails."""
    machine, count = results["machine"], results["defects"]
    where = f"torch {machine['torch']}, {machine['date']}"
    yield f"{count} small operators with one defect each (tests/checker/planted), {where}."
    yield ""
    yield "| | defects found | under the right name | false alarms on correct operators |"
    yield "|---|---|---|---|"
    names = {"opcheck": "`torch.library.opcheck`", "opsmith": "`opsmith check`"}
    for tool, score in results["score"].items():
        right = f"{score['found']}" if tool == "opsmith" else "–"
        yield f"| {names[tool]} | {score['found']} of {count} | {right} | {score['false_alarms']} |"


def planted(results: Result) -> Iterator[str]:
    """Yield the planted defects that `opsmith check` finds under their names, by class and seed, and those it blames."""
    machine, classes = results["machine"], results["classes"]
    seeds = sorted({seed for kinds in classes.values() for counts in kinds.values() for seed in counts}, key=int)
    checks = sum(total for kinds in classes.values() for counts in kinds.values() for _, total in counts.values())
    mended = f" {results['mended']} of them were not right at first, were mended, and were run again."
    yield (
        f"`opsmith check` as it is by default, {machine['name']}, {machine['cores']} cores, torch {machine['torch']}, "
        f"{results['date'][:10]}: {checks:,} checks.{mended if results['mended'] else ''}"
    )
    yield ""
    yield f"| class | {' | '.join(f'seed {seed}' for seed in seeds)} |"
    yield f"|---|{'---|' * len(seeds)}"
    for kind, kinds in classes.items():
        if "defects" in kinds:
            yield f"| {kind}, found under their names | {_right(kinds['defects'], seeds)} |"
    names = {
        "sound": "correct operators of suspicious kinds, not blamed",
        "defects": "**all defects, found under their names**",
        "twins": "**all twins without the defect, not blamed**",
    }
    for what, name in names.items():
        parts = [kinds[what] for kinds in classes.values() if what in kinds]
        whole = {seed: [sum(part[seed][at] for part in parts if seed in part) for at in (0, 1)] for seed in seeds}
        yield f"| {name} | {_right({seed: counts for seed, counts in whole.items() if counts[1]}, seeds)} |"
    if gpu := results["gpu"]:
        yield ""
        yield (
            f"In CUDA kernels, on {gpu['machine']['name']}, of seed {' and '.join(map(str, gpu['seeds']))}: {gpu['right']} "
            f"of {gpu['checked']} under their names, {gpu['blamed']} of {gpu['twins']} twins blamed."
        )


def _right(counts: dict[str, Any], seeds: Iterable[str]) -> str:
    return " | ".join("{} of {}".format(*counts[seed]) if seed in counts else "–" for seed in seeds)


def call_time(results: Result) -> Iterator[str]:
    """Yield the tables of call_time.py. "bridge", where it is there, has the seconds to build and to load it."""
    kind = ", host time without waiting for the GPU" if results["machine"]["gpu"] else ""
    interval = "95 % intervals" if "interval" in results else "quartiles"
    yield f"{_machine(results)} 8 elements, float32{kind}; medians of interleaved rounds, ratios with {interval}."
    if note := results.get("note"):
        yield note
    yield ""
    for rows in _with_equal_baselines(results["rows"].values()):
        names = [f"`{name}`" if name.startswith("torch.") else name for name in rows[0]["of_baseline"]]
        yield f"| call | opsmith | {' | '.join(names)} |"
        yield "|---" * (2 + len(names)) + "|"
        for row in rows:
            of = row["of_baseline"]
            cells = [f"{microseconds(row['seconds'][name])}, ratio {share(of[name])}" for name in of]
            yield f"| {row['what']} | {microseconds(row['seconds']['opsmith'])} | {' | '.join(cells)} |"
        yield ""
    yield "The ratio is opsmith's time divided by the baseline's: less than 1 means that opsmith is faster."
    if "memory" in results:
        yield ""
        yield (
            "| LLTM training step: steps, batch, input, state | peak memory | the same, written by hand "
            "| saved for backward | the same, written by hand |"
        )
        yield "|---|---|---|---|---|"
        for row in results["memory"]:
            size = ", ".join(str(row[name]) for name in ("steps", "batch", "input", "state"))
            sizes = [row[who][what] for what in ("peak_bytes", "saved_bytes") for who in ("opsmith", "by hand")]
            yield f"| {size} | {' | '.join(f'{count / 1e6:,.2f} MB' for count in sizes)} |"
    if "bridge" in results:
        bridge = results["bridge"]
        yield ""
        yield (
            f"The bridge is built in the background, once per torch, in {seconds(bridge['build_s'])}; "
            f"loading it takes {milliseconds(bridge['load_s'])}."
        )


def _machine(results: Result) -> str:
    """Return where and when a result was measured, as a sentence."""
    machine = results["machine"]
    name = machine.get("gpu") or results.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"
    return f"{name}, torch {results['torch']}, {results['date'][:10]}."


def _programs(count: int) -> str:
    return f"starting {count or 'no'} program{'' if count == 1 else 's'}"


def _with_equal_baselines(rows: Iterable[Result]) -> list[list[Result]]:
    """Rows that are measured against the same baselines share a table."""
    return [list(group) for _, group in itertools.groupby(rows, key=lambda row: list(row["of_baseline"]))]


# Region of docs/results/figures.md -> what makes its tables, and the result files of each, in order.
REGIONS: dict[str, tuple[Callable[[Result], Iterator[str]], tuple[str, ...]]] = {
    "builds": (build_time, ("build_time.json",)),
    "extensions": (existing_build, ("existing_build.json", "existing_build_gpu.json")),
    "packages": (real_packages, ("real_packages.json",)),
    "calls": (call_time, ("call_time.json", "call_time_newest.json", "call_time_gpu.json")),
    "binary": (foreign_binary, ("foreign_binary.json",)),
    "shipping": (ship_time, ("ship_time.json",)),
    "defects": (check_score, ("check_score.json",)),
    "planted": (planted, ("planted.json",)),
}


def toolkit_table(region: str) -> str:
    """Return the tables of a region, one for each of its result files that is there."""
    make, files = REGIONS[region]
    parts = ["\n".join(make(result)) for file in files if (result := read(file)) is not None]
    return "\n\n".join(parts) or "Nothing has been measured yet."


def read(file: str) -> Result | None:
    """Return the content of a result file, or None where there is no such file."""
    path = RESULTS / file
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


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
