"""Makes the tables of the guide to `opsmith judge`: what it and a plain judge say of the suite's candidates, by machine,
what it says of copies of KernelBench's models, its times beside those of `bench`, and how many it judges in an hour.

    python tests/judging/suite/score.py --json benchmarks/results/judge_suite_cpu.json
    python benchmarks/kernelbench.py KernelBench/KernelBench --output benchmarks/results/kernelbench_cpu.json
    python benchmarks/judge_times.py --output benchmarks/results/judge_times_gpu.json
    python benchmarks/judge_throughput.py --output benchmarks/results/judge_throughput_gpu.json
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from opsmith.report.units import duration

__all__ = ["judge_suite", "judge_throughput", "judge_times", "kernelbench"]

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests" / "judging"))

from suite.ways import WAYS  # noqa: E402 -- after the path

Found = dict[str, Any]


def judge_suite() -> str:
    """Return a table for each machine that has results; "" where there are none."""
    every = (_read(f"judge_suite_{device}.json") for device in ("gpu", "cpu"))
    return "\n\n".join(_of_machine(content) for content in every if content is not None)


def judge_times() -> str:
    """Return the seconds of a call as the judge, `bench` and CUPTI take them; "" without results."""
    if (content := _read("judge_times_gpu.json")) is None:
        return ""
    lines = [
        f"{content['device']}, torch {content['torch']}, {content['date'][:10]}:",
        "",
        "| call, float32 | judge | bench | kernels (CUPTI) | bench's part of the judge's |",
        "|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        times = [duration(row["seconds"][name]["median"]) for name in ("judge", "bench", "kernels")]
        part = row["times_faster"]["bench"]
        cells = [f"{row['case'].replace('_', ' ')}, {' x '.join(map(str, row['shape']))}", *times]
        lines.append(f"| {' | '.join(cells)} | {part['median']:.3f} [{part['min']:.3f}, {part['max']:.3f}] |")
    return "\n".join(lines)


def judge_throughput() -> str:
    """Return how many candidates a GPU judges in an hour, by what is asked; "" without results."""
    if (content := _read("judge_throughput_gpu.json")) is None:
        return ""
    rows: Sequence[Found] = content["rows"]
    count, cores = len(rows[0]["candidates"]), rows[0]["cores"]
    lines = [
        f"{content['device']}, {cores} cores, torch {content['torch']}, {content['date'][:10]}; batches of {count}:",
        "",
        "| asked | batches at a time | seconds a judgement | judgements an hour |",
        "|---|---|---|---|",
    ]
    for row in rows:
        taken_s = row["beside"] * row["seconds"] / row["judged"]
        lines.append(f"| {row['asked']} | {row['beside']} | {taken_s:.0f} | {row['per_hour']:.0f} |")
    return "\n".join(lines)


def kernelbench() -> str:
    """Return what the judge says of copies of KernelBench's models, a row for each level; "" without results."""
    if (content := _read("kernelbench_cpu.json")) is None:
        return ""
    results: Sequence[Found] = content["results"]
    lines = [
        f"{content['device']}, torch {content['torch']}, {content['date']}:",
        "",
        "| level | problems | accepted | the task is refused | the copy is refused | no verdict |",
        "|---|---|---|---|---|---|",
    ]
    levels = list(dict.fromkeys(one["name"].partition("/")[0] for one in results))
    for name in (*levels, "all"):
        of_level = [one for one in results if name in ("all", one["name"].partition("/")[0])]
        verdicts = Counter(one["verdict"] for one in of_level)
        known = [verdicts[word] for word in ("accepted", "task refused", "copy refused")]
        cells = map(str, [name.removeprefix("level"), len(of_level), *known, len(of_level) - sum(known)])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _read(name: str) -> Found | None:
    file = HERE / "results" / name
    found: Found | None = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return found


def _of_machine(content: Found) -> str:
    results: Sequence[Found] = content["results"]
    cheats = [one for one in results if one["kind"] == "cheat"]
    honest = [one for one in results if one["kind"] == "honest"]
    lines = [
        f"{content['device']}, torch {content['torch']}, {content['date']}:",
        "",
        "| way | cheats | told by `opsmith judge` | passed by a plain judge |",
        "|---|---|---|---|",
    ]
    for number, text in WAYS.items():
        of_way = [one for one in cheats if number in one["ways"]]
        lines += [_row(text, of_way)] if of_way else []
    lines += [_row("others", [one for one in cheats if not one["ways"]]), _row("**all cheats**", cheats)]
    accepted, passed = _count(honest, _is_right), _count(honest, _is_passed)
    return "\n".join([*lines, f"| **honest candidates** | {len(honest)} | {accepted} accepted | {passed} |"])


def _row(text: str, cheats: Sequence[Found]) -> str:
    return f"| {text} | {len(cheats)} | {_count(cheats, _is_right)} | {_count(cheats, _is_passed)} |"


def _count(found: Iterable[Found], wanted: Callable[[Found], bool]) -> int:
    return sum(map(wanted, found))


def _is_right(one: Found) -> bool:
    return bool(one["verdict"] == "right")


def _is_passed(one: Found) -> bool:
    return bool(one["plain"] == "correct")
