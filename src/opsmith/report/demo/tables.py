"""Makes tables of what the demo has found, and a line of summary for each part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opsmith.demo.agreement import Agreement
from opsmith.demo.builds import Build, are_identical
from opsmith.demo.results import Results
from opsmith.demo.slopes import Slope
from opsmith.demo.training import BATCH, LEAST_LOSS, SMOOTHING, TARGET, UNITS, Run, gain_of, largest_gap
from opsmith.report.bench.grid import tables_of
from opsmith.report.table import BAD, GOOD, NEITHER, Table, mark
from opsmith.report.units import size, verdict_text

__all__ = [
    "Finding",
    "agreement_table",
    "build_table",
    "machine_table",
    "slope_table",
    "summary_of",
    "training_table",
    "verdict_of",
]

_MOST_DIFFERENCES = 3


@dataclass(frozen=True)
class Finding:
    """One line of the summary: a mark, what it is about, and what was found."""

    sign: str
    topic: str
    text: str


def build_table(builds: Sequence[Build]) -> Table:
    """Return the builds as a table."""
    rows = tuple(
        (build.builder, f"{build.seconds:.1f} s", size(build.size_bytes), build.sha256[:8], build.library)
        if build.left_out is None
        else (build.builder, "left out", "", "", build.left_out)
        for build in builds
    )
    note = "Each library is built from scratch."
    if (done := sum(build.left_out is None for build in builds)) > 1:
        same = f"The {done} libraries are identical, byte for byte."
        other = "The libraries differ in their bytes, but their results must not."
        note = f"{note} {same if are_identical(builds) else other}"
    return Table("Three builds", ("built with", "time", "size", "sha256", "library"), "lrrll", rows, note)


def agreement_table(agreement: Agreement) -> Table:
    """Return the comparison as a table."""
    rows = tuple(
        (
            tally.operator,
            f"{tally.calls:,}",
            f"{tally.numbers:,}",
            f"{tally.differing:,}",
            mark(tally.numbers > 0 and not tally.differing),
        )
        for tally in agreement.tallies
    )
    built = ", ".join(agreement.libraries)
    note = f"Only {built} could be built here, so there was nothing to compare it with."
    if len(agreement.libraries) > 1:
        note = (
            f"Compared bit by bit: {built}, each in its own process that never imports opsmith, and the operators of "
            "this process. The calls are cases of `opsmith check`: every element type, many sizes, layouts and "
            "special values."
        )
    if agreement.differences:
        first = "; ".join(agreement.differences[:_MOST_DIFFERENCES])
        note += f" {len(agreement.differences):,} outputs differ, beginning with: {first}."
    return Table("Agreement", ("operator", "calls", "numbers", "differing", ""), "lrrrl", rows, note)


def slope_table(slopes: Sequence[Slope]) -> Table:
    """Return the slopes as a table."""
    rows = tuple(
        (
            f"{slope.gate:g}",
            slope.device,
            f"{slope.exact:.7g}",
            f"{slope.published:.7g} {mark(slope.is_published_right)}",
            f"{slope.found:.7g} {mark(slope.is_right)}",
        )
        for slope in slopes
    )
    note = (
        "The derivative of the new cell by the candidate gate, float32, input gate open. The published formula multiplies "
        "an infinite exponential by a mask of 0, and has no branch for 0 itself."
    )
    columns = ("candidate gate", "device", "exact", "published", "opsmith")
    return Table("Where the published gradient fails", columns, "rlrrr", rows, note)


def training_table(runs: Sequence[Run]) -> Table:
    """Return the trainings as a table."""
    rows = tuple(
        (
            run.variant,
            f"{run.steps:,}",
            f"{run.seconds:.1f} s",
            f"{run.step_ms:.2f} ms",
            f"{run.losses[-1]:.5f}",
            f"{run.accuracy:.2%}",
            f"{round((1 - run.accuracy) * len(run.predictions))} of {len(run.predictions)}",
        )
        for run in runs
    )
    note = (
        f"The same images for all, a quarter of them to be tested on, split evenly over the digits. 8 steps of 8 pixels, "
        f"{UNITS} units, batches of {BATCH}, Adam, label smoothing {SMOOTHING:g} (the least possible loss is "
        f"{LEAST_LOSS:.5f}), one CPU thread."
    )
    if len(runs) > 1:
        begin, most = largest_gap(runs)
        note += f" From equal weights and batches the losses differ by {begin:.1e} in the first epoch and "
        note += f"by {most:.1e} at most, relative."
    columns = ("variant", "steps", "time", "a step", "last loss", "test accuracy", "wrong")
    return Table("Training", columns, "lrrrrrr", rows, note)


def machine_table(results: Results) -> Table:
    """Return what every figure depends on, but for the code, as a table."""
    machine = results.machine
    rows = (
        (
            "processor",
            f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads used by PyTorch",
        ),
        ("GPU", machine["gpu"] or "none"),
        ("system", f"{machine['system']}, Python {machine['python']}"),
        ("PyTorch", machine["torch"]),
        ("opsmith", machine["opsmith"]),
        *((f"{language} compiler", name) for language, name in machine["compilers"].items()),
    )
    return Table("Machine", ("what", "which"), "ll", rows)


def summary_of(results: Results) -> tuple[Finding, ...]:
    """Return the findings, in a line each."""
    numbers = sum(tally.numbers for tally in results.agreement.tallies)
    right = sum(slope.is_right for slope in results.slopes)
    published = sum(slope.is_published_right for slope in results.slopes)
    checks = {result.name for report in results.checks for result in report.results}
    failed = {name for report in results.checks for name in report.failed}
    return (
        Finding(GOOD, "built", _build_times(results.builds)),
        *(
            Finding(NEITHER, "left out", f"{build.builder}: {build.left_out}")
            for build in results.builds
            if build.left_out
        ),
        Finding(mark(results.agreement.is_total), "agree", f"{numbers:,} numbers compared, bit by bit"),
        Finding(
            mark(not failed),
            "checked",
            f"{len(checks) - len(failed)} of {len(checks)} properties of {', '.join(r.operator for r in results.checks)}",
        ),
        Finding(
            mark(right == len(results.slopes)),
            "gradient",
            f"right at {right} of {len(results.slopes)} hard points; the published formula at {published}",
        ),
        _speed(results),
        _training(results),
    )


def verdict_of(results: Results) -> str:
    """Return in one sentence whether all is as promised."""
    if results.failures:
        return "Not as promised: " + "; ".join(results.failures) + "."
    return "Everything is as promised." + (" (A quick run: no accuracy is required.)" if results.quick else "")


def _build_times(builds: Sequence[Build]) -> str:
    done = [build for build in builds if build.left_out is None]
    times = ", ".join(f"{build.builder} {build.seconds:.1f} s" for build in done)
    return f"{times}, byte for byte the same" if len(done) > 1 and are_identical(done) else times


def _speed(results: Results) -> Finding:
    """Say how many times as fast the kernels are; being slower is not a failure, for a machine may be busy."""
    if not all(report.ok for report in results.benchmarks):
        return Finding(BAD, "speed", "results are wrong")
    found = list(_ratios(results))
    is_faster = bool(found) and all(kind == "faster" for kind, _ in found)
    texts = "; ".join(text for _, text in found) or "not timed"
    return Finding(GOOD if is_faster else NEITHER, "speed", f"as fast as plain PyTorch: {texts}")


def _ratios(results: Results) -> Iterator[tuple[str, str]]:
    for report in results.benchmarks:
        for table in tables_of(report.timings):
            for row in table.rows:
                if (verdict := row.verdict("eager")) is not None:
                    where = f"{table.phase}, {row.workload}, {report.machine.device}"
                    yield verdict.kind, f"{verdict_text(verdict)} ({where})"


def _training(results: Results) -> Finding:
    first = results.runs[0]
    gain = gain_of(results.runs)
    is_enough = (results.quick or all(run.accuracy >= TARGET for run in results.runs)) and (gain is None or gain >= 1)
    asked = "not required in a quick run" if results.quick else f"{TARGET:.0%} required"
    text = f"{first.accuracy:.2%} of {len(first.predictions)} test digits right ({asked})"
    if gain is not None:
        text += f", {gain:.2f}x as fast as plain PyTorch (a step, CPU)"
    return Finding(mark(is_enough), "trained", text)
