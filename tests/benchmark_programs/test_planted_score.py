"""The summary of planted defects: later checks replace earlier ones, and how many were wrong before is counted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import planted_score

    yield planted_score
    sys.modules.pop("toolkit_tables", None)


def check(name: str, seed: int, verdict: str = "right", what: str = "defects") -> dict[str, Any]:
    unit = {"what": what, "kind": "races", "name": name, "seed": seed}
    return {"unit": unit, "verdict": verdict, "processor_s": 2.0}


MACHINE = {"name": "EPYC", "cores": 2, "torch": "2.13.0"}
FIRST = {
    "machine": MACHINE,
    "date": "2026-11-25",
    "results": [check("a", 0, "missed"), check("b", 0), check("b", 1, "two names"), check("a", 0, "blamed", "twins")],
}
AGAIN = {"date": "2026-11-26", "results": [check("a", 0), check("a", 0, what="twins")]}


def test_later_checks_replace_earlier_ones(program: Any) -> None:
    found = program.summary([FIRST, AGAIN])
    assert found["classes"] == {"races": {"defects": {"0": [2, 2], "1": [0, 1]}, "twins": {"0": [1, 1]}}}
    assert (found["mended"], found["machine"], found["date"]) == (2, MACHINE, "2026-11-26")


def test_the_table_has_what_is_not_right(program: Any) -> None:
    import toolkit_tables

    gpu = {
        "machine": {"name": "H100"},
        "rows": [{"right": 1, "checked": 2, "twins": 2, "blamed": 1}],
        "checks": [{"seed": 4}, {"seed": 3}],
    }
    text = "\n".join(toolkit_tables.planted(program.summary([FIRST], [gpu])))
    assert "| races, found under their names | 1 of 2 | 0 of 1 |" in text
    assert "| **all twins without the defect, not blamed** | 0 of 1 | – |" in text
    assert "on H100, of seed 3 and 4: 1 of 2 under their names, 1 of 2 twins blamed" in text
