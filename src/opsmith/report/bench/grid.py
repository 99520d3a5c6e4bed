"""Arranges timings: a table for each element type and phase, a row for each size, a column for each competitor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opsmith.benchmark.result import OWN, BenchReport, Timing
from opsmith.benchmark.statistics import Verdict
from opsmith.report.units import count_of, with_prefix

__all__ = [
    "PHASE_WORDS",
    "Problem",
    "Row",
    "Table",
    "limit_words",
    "machine_words",
    "noise_of",
    "problem_text",
    "problems_of",
    "remarks_of",
    "slower_words",
    "tables_of",
]

PHASE_WORDS = {"forward": "forward", "backward": "backward", "both": "forward and backward"}
_PHASES = tuple(PHASE_WORDS)
_NUMBER = re.compile(r"\d+(\.\d+)?")
_SIZES = re.compile(r"\w+ \d+(, \w+ \d+)*")


@dataclass(frozen=True)
class Row:
    """One size. `label` is short where the table's head names the sizes; `timings` are by competitor."""

    workload: str
    label: str
    own: Timing | None
    timings: Mapping[str, Timing]

    def verdict(self, name: str, clock: str = "device") -> Verdict | None:
        """Return what a competitor's verdict is, or None: without a time of the operator there is none."""
        timing = self.timings.get(name)
        if timing is None or self.own is None or self.own.time is None:
            return None
        return timing.verdict if clock == "device" else timing.wall_verdict


@dataclass(frozen=True)
class Table:
    """One element type and phase. `head` names the sizes, as "B x N"; `others` are the competitors that have a time."""

    dtype: str
    phase: str
    own: str
    others: tuple[str, ...]
    head: str
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """The element type and the phase in words."""
        return ", ".join(part for part in (self.dtype, PHASE_WORDS.get(self.phase, self.phase)) if part)

    @property
    def timings(self) -> list[Timing]:
        """All timings that have a time, by row, the operator's first."""
        found = [row.timings.get(name) for row in self.rows for name in (self.own, *self.others)]
        return [timing for timing in found if timing is not None and timing.time is not None]


@dataclass(frozen=True)
class Problem:
    """What could not be timed, or is wrong, and where: element types, sizes and phases.

    `competitors` are the names of those that it is true of, separated by commas; `error` is the first one's.
    """

    competitors: str
    error: str
    cases: tuple[str, ...]
    is_wrong: bool


def tables_of(timings: Sequence[Timing]) -> tuple[Table, ...]:
    """Return the tables of some timings; element types and sizes in the order in which they were timed."""
    dtypes = list(dict.fromkeys(timing.dtype for timing in timings))
    found = dict.fromkeys((timing.dtype, timing.phase) for timing in timings)
    order = sorted(found, key=lambda key: (dtypes.index(key[0]), _PHASES.index(key[1]) if key[1] in _PHASES else 9))
    return tuple(
        _table(dtype, phase, [t for t in timings if (t.dtype, t.phase) == (dtype, phase)]) for dtype, phase in order
    )


def problems_of(timings: Iterable[Timing]) -> tuple[Problem, ...]:
    """Return what has no time or is wrong; what a competitor has in several cases, but for numbers, once.

    What several have in the same cases is one problem, of all of them.
    """
    alike: dict[tuple[str, str], list[Timing]] = {}
    for timing in timings:
        if timing.error:
            alike.setdefault((timing.competitor, timing.error.partition(":")[0]), []).append(timing)
    shared: dict[tuple[str, tuple[str, ...], bool], list[str]] = {}
    for (name, _), found in alike.items():
        shared.setdefault((found[0].error, tuple(map(_case, found)), found[0].is_wrong), []).append(name)
    return tuple(Problem(", ".join(names), *rest) for rest, names in shared.items())


def problem_text(problem: Problem) -> str:
    """Return a problem in one line: whose it is, where, and what."""
    more = f" and {len(problem.cases) - 1} more" if len(problem.cases) > 1 else ""
    return f"{problem.competitors} ({problem.cases[0]}{more}): {problem.error}"


def remarks_of(timings: Iterable[Timing]) -> tuple[str, ...]:
    """Return the notes on timings, each with what it is about; the same note, but for numbers, once."""
    alike: dict[str, list[tuple[str, Timing]]] = {}
    for timing in timings:
        for note in timing.notes:
            alike.setdefault(_NUMBER.sub("#", note), []).append((note, timing))
    remarks = []
    for found in alike.values():
        names = list(dict.fromkeys(timing.competitor for _, timing in found))
        cases = list(dict.fromkeys(_case(timing) for _, timing in found))
        # What the operator and another have in common is about the size, not about them.
        whose = "" if len(names) > 1 and found[0][1].is_own else f"{', '.join(names)}: "
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        remarks.append(f"{whose}{found[0][0]} ({cases[0]}{more})")
    return tuple(remarks)


def slower_words(timings: Sequence[Timing]) -> str:
    """Return where the operator is slower than a competitor, and where to look for the reason; "" if it is not."""
    own = {(timing.dtype, timing.workload, timing.phase) for timing in timings if timing.is_own and timing.time}
    slower = [
        timing
        for timing in timings
        if timing.verdict is not None
        and timing.verdict.kind == "slower"
        and (timing.dtype, timing.workload, timing.phase) in own
    ]
    if not slower:
        return ""
    names = ", ".join(dict.fromkeys(timing.competitor for timing in slower))
    cases = list(dict.fromkeys(map(_case, slower)))
    more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    return (
        f"slower than {names} ({cases[0]}{more}): `opsmith profile` shows where the time of a call goes, and the guide "
        "'Make a kernel faster' what to try"
    )


def noise_of(timings: Iterable[Timing]) -> tuple[float, float] | None:
    """Return the least and the most by which two timings of the same thing differed, as parts, or None."""
    found = [timing.verdict.noise for timing in timings if timing.verdict is not None]
    return (min(found), max(found)) if found else None


def machine_words(report: BenchReport) -> str:
    """Return the machine in words: what it is, and what the results depend on besides."""
    machine = report.machine
    threads = count_of(machine.threads, "thread")
    return f"{machine.name}, {f'{threads}, ' if machine.device == 'cpu' else ''}torch {machine.torch}"


def limit_words(report: BenchReport) -> Iterator[str]:
    """Yield the machine's limits in words: bytes a second of a copy, operations a second of matrix products."""
    if copy := report.limits.get("copy_bytes_s"):
        yield f"copy {with_prefix(copy, 'B/s')}"
    rates = report.limits.get("matmul_flops_s", {})
    for dtype in dict.fromkeys(timing.dtype for timing in report.timings):
        if dtype in rates and any(timing.flops for timing in report.timings):
            yield f"matrix products {with_prefix(rates[dtype], 'FLOP/s')} in {dtype}"


def _case(timing: Timing) -> str:
    return ", ".join(part for part in (timing.dtype, timing.workload, timing.phase) if part)


def _table(dtype: str, phase: str, timings: Sequence[Timing]) -> Table:
    names = list(dict.fromkeys(timing.competitor for timing in timings))
    own = next((name for name in names if name in OWN), OWN[0])
    timed = {timing.competitor for timing in timings if timing.time is not None}
    others = tuple(name for name in _in_usual_order(names) if name != own and name in timed)
    workloads = list(dict.fromkeys(timing.workload for timing in timings))
    head, labels = _short(workloads)
    rows = []
    for workload, label in zip(workloads, labels, strict=True):
        by_name = {timing.competitor: timing for timing in timings if timing.workload == workload}
        rows.append(Row(workload, label, by_name.get(own), by_name))
    return Table(dtype, phase, own, others, head, tuple(rows))


def _in_usual_order(names: Sequence[str]) -> list[str]:
    """Return names in the order of columns: one that failed at the first size comes late in the report, but not here."""
    usual = ("eager", "compiled", "reduce-overhead", "max-autotune", "graph", "eager graph")
    return sorted(names, key=lambda name: usual.index(name) if name in usual else len(usual) + names.index(name))


def _short(workloads: Sequence[str]) -> tuple[str, list[str]]:
    """Return "B x N" and "64 x 4096" for "B 64, N 4096", where all sizes are written so with the same names."""
    if all(_SIZES.fullmatch(workload) for workload in workloads):
        pairs = [[part.split(" ") for part in workload.split(", ")] for workload in workloads]
        heads = {" x ".join(name for name, _ in pair) for pair in pairs}
        if len(heads) == 1:
            return heads.pop(), [" x ".join(number for _, number in pair) for pair in pairs]
    return "", list(workloads)
