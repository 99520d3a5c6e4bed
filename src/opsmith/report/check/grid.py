"""Arranges the results of a check: properties below each other, devices and element types beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opsmith.checker.outcome import Outcome
from opsmith.checker.report import Column, Report, Result
from opsmith.report.units import count_of

__all__ = ["MARKS", "Failure", "Grid", "Row", "failures_of", "grid_of", "kind_of", "reasons_of", "totals"]

# By what `kind_of` returns.
MARKS = {"passed": "✓", "failed": "✗", "not run": "–", "error": "!"}


@dataclass(frozen=True)
class Row:
    """A property: its outcome in each column, and those that stand for a whole device."""

    name: str
    cells: Mapping[Column, Outcome]
    spanning: Mapping[str, Outcome]

    @property
    def seconds(self) -> float:
        """How long the property took in all columns."""
        return sum(outcome.seconds for outcome in [*self.cells.values(), *self.spanning.values()])


@dataclass(frozen=True)
class Grid:
    """All rows, and the columns of each device; a device without columns of its own has one, of no element type."""

    columns: Mapping[str, tuple[Column, ...]]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Failure:
    """A property that failed: the result that shows it, and the other columns that it failed in as well."""

    shown: Result
    others: tuple[Column, ...]


def grid_of(results: Iterable[Result]) -> Grid:
    """Arrange results."""
    columns: dict[str, dict[Column, None]] = {}
    cells: dict[str, dict[Column, Outcome]] = {}
    spanning: dict[str, dict[str, Outcome]] = {}
    for result in results:
        device = result.column.device
        known = columns.setdefault(device, {})
        cells.setdefault(result.name, {})
        spanning.setdefault(result.name, {})
        if result.column.dtype:
            known[result.column] = None
            cells[result.name][result.column] = result.outcome
        else:
            spanning[result.name][device] = result.outcome
    filled = {device: tuple(known) or (Column(device, ""),) for device, known in columns.items()}
    return Grid(filled, tuple(Row(name, cells[name], spanning[name]) for name in cells))


def failures_of(report: Report) -> tuple[Failure, ...]:
    """Return what failed, each property once: a defect is mostly the same one in every element type."""
    by_name: dict[str, list[Result]] = {}
    for result in report.failures:
        by_name.setdefault(result.name, []).append(result)
    return tuple(Failure(first, tuple(result.column for result in rest)) for first, *rest in by_name.values())


def reasons_of(report: Report) -> dict[str, list[str]]:
    """Return why something was not run: the reason, and what it holds for, in words.

    A property that ran nowhere is named alone, another with the columns that it did not run in.
    """
    columns: dict[str, set[Column]] = {}
    found: dict[str, dict[str, list[Column]]] = {}
    for result in report.results:
        columns.setdefault(result.name, set()).add(result.column)
        if result.outcome.state == "not run":
            found.setdefault(result.outcome.note, {}).setdefault(result.name, []).append(result.column)
    return {
        reason: [
            name if len(missing) == len(columns[name]) else f"{name} {_within(missing, columns[name])}"
            for name, missing in by_name.items()
        ]
        for reason, by_name in found.items()
    }


def _within(missing: list[Column], columns: set[Column]) -> str:
    """Return which columns out of all of a property are meant, in words: whole devices by their names alone."""
    devices = {column.device for column in columns}
    parts = []
    for device in dict.fromkeys(column.device for column in missing):
        here = [column.dtype for column in missing if column.device == device]
        on = f"on {device}" if len(devices) > 1 else ""
        is_whole = len(here) == sum(column.device == device for column in columns)
        parts.append(on if is_whole else f"{on} in {', '.join(here)}".strip())
    return " and ".join(parts)


def kind_of(outcome: Outcome) -> str:
    """Return what an outcome is shown as: its state, or "error" where the check itself failed."""
    return "error" if outcome.is_error else outcome.state


def totals(report: Report) -> str:
    """Return in one line what the results come to."""
    names = {result.name for result in report.results}
    states = [result.outcome.state for result in report.results]
    ran = sum(state != "not run" for state in states)
    inputs = sum(result.outcome.inputs for result in report.results)
    one_of = count_of(len(names), "property")
    if report.ok:
        ran_names = {result.name for result in report.results if result.outcome.state == "passed"}
        verdict = f"{len(ran_names)} of {one_of} hold, {len(names) - len(ran_names)} not run"
        if len(ran_names) == len(names):
            verdict = f"all {one_of} hold" if len(names) > 1 else "the property holds"
    elif report.failed:
        verdict = f"{len(report.failed)} of {one_of} failed"
    else:
        verdict = f"{len({result.name for result in report.errors})} of {one_of} not judged: the check itself failed"
    parts = (verdict, f"{count_of(ran, 'check')} of {count_of(inputs, 'input')}", f"seed {report.seed}")
    return " · ".join([*parts, f"{report.seconds:.1f} s"])
