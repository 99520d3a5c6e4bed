"""Makes the table of the guide to `opsmith judge`: what it and a plain judge say of the suite's candidates, by machine.

python tests/judging/suite/score.py --json benchmarks/results/judge_suite_cpu.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["judge_suite"]

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests" / "judging"))

from suite.ways import WAYS  # noqa: E402 -- after the path

Found = dict[str, Any]


def judge_suite() -> str:
    """Return a table for each machine that has results; "" where there are none."""
    files = [HERE / "results" / f"judge_suite_{device}.json" for device in ("gpu", "cpu")]
    return "\n\n".join(_of_machine(json.loads(file.read_text(encoding="utf-8"))) for file in files if file.is_file())


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
