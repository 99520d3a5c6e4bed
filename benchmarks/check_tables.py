"""What `opsmith check` prints for the README, and the table of docs/guides/check.md: how long it takes for each operator."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["check_screen", "check_times"]

RESULTS = Path(__file__).resolve().parent / "results"


def check_screen() -> str:
    """Return what `opsmith check` prints for the README's first operator, and on which machine."""
    results = _read("check_screen.json")
    if results is None:
        return ""
    where = f"Measured on {_machine(results)}."
    return "\n".join(["```console", f"$ {results['command']}", results["screen"].rstrip(), "```", "", where])


def check_times() -> str:
    """Return a row for each operator, the slowest first, and what half of them take at most; "" without results."""
    results = _read("check_times.json")
    if results is None:
        return ""
    checks = sorted(results["checks"], key=lambda one: -one["seconds"])
    half = median(one["seconds"] for one in checks)
    lines = [
        f"All properties on the CPU, one check after the other on {_machine(results)}: {half:.0f} s for half of them, "
        f"{checks[0]['seconds']:.0f} s at most.",
        "",
        "| operator | time | inputs | left out | most of it |",
        "|---|---|---|---|---|",
    ]
    for one in checks:
        slowest = ", ".join(f"`{name}` {seconds:.1f} s" for name, seconds in one["slowest"].items())
        cells = [f"`{one['name']}`", f"{one['seconds']:.1f} s", f"{one['inputs']:,}", f"{one['left_out']:,}", slowest]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / name
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _machine(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return f"{machine['cores']} cores, {machine['name']}, torch {machine['torch']}, {results['date'][:10]}"
