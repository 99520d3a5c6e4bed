"""Makes the tables of docs/results/mutation.md: the mutants of each operator that `opsmith check` finds, and the others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["mutation_survivors", "mutation_table"]

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "mutation.json"
SURVIVORS = HERE / "mutation_survivors.toml"

_UNKNOWN = {"is_fault": True, "why": "Not looked into yet."}


def mutation_table() -> str:
    """Return a row for each operator and one for all; "" where there are no results."""
    reports = _reports()
    if not reports:
        return ""
    lines = [
        *_machines(reports),
        "",
        "| operator | possible | planted | not compiled | same code | found | survived | of these no fault "
        "| found of the faults |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(f"`{report['name'].removeprefix('opsmith.')}`", [report]) for report in reports]
    return "\n".join([*lines, _row("**all**", reports)])


def mutation_survivors() -> str:
    """Return a row for each mutant that survived, with what it is; those of two operators are there once."""
    lines = ["| mutant | line | a fault | why it survived |", "|---|---|---|---|"]
    seen = set()
    for report in _reports():
        for mutant in _survivors(report):
            place = f"{mutant['file']}:{mutant['line']}"
            if (place, mutant["after"]) not in seen:
                seen.add((place, mutant["after"]))
                known = _explained(mutant)
                code = mutant["after"].strip().replace("|", "\\|") or "(nothing)"
                lines.append(f"| {place}, {mutant['kind']} | `{code}` | {_yes(known['is_fault'])} | {known['why']} |")
    return "\n".join(lines)


def _reports() -> list[dict[str, Any]]:
    if not RESULTS.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))["operators"]
    return found


def _machines(reports: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each machine that results come from, with its versions and the day."""
    known = {}
    for report in reports:
        machine = report["machine"]
        asked = report["asked"]
        known[
            f"{machine['name']}, {machine['cores']} cores, torch {machine['torch']}, Python {machine['python']}, "
            f"{report['date'][:10]}: up to {asked['mutants']} mutants of each operator, headers included, no new ones after "
            f"{asked['seconds']:g} s, seed {asked['seed']}."
        ] = None
    yield from known


def _row(name: str, reports: list[dict[str, Any]]) -> str:
    keys = ("possible", "planted", "not_compiled", "same_code", "found", "survived")
    counts = {key: sum(report[key] for report in reports) for key in keys}
    harmless = sum(not _explained(mutant)["is_fault"] for report in reports for mutant in _survivors(report))
    faults = counts["found"] + counts["survived"] - harmless
    score = f"{100 * counts['found'] / faults:.0f} %" if faults else "–"
    return f"| {name} | {' | '.join(f'{counts[key]:,}' for key in keys)} | {harmless} | {score} |"


def _survivors(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [mutant for mutant in report["mutants"] if mutant["fate"] == "survived"]


def _explained(mutant: dict[str, Any]) -> dict[str, Any]:
    for known in tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["survivor"]:
        if (known["file"], known["after"]) == (mutant["file"], mutant["after"].strip()):
            return known
    return _UNKNOWN


def _yes(value: bool) -> str:
    return "yes" if value else "no"
