"""Shows a comparison of builds as text: a row for each builder, then a row for each size of the calls."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.benchmark.build_result import BuildReport, BuildTimes, CallTimes, Spread
from opsmith.report.terminal import Cell, Style, aligned, plain
from opsmith.report.units import duration, percent, size, verdict_text

__all__ = ["build_lines", "report_text"]

_HEADS = ("built with", "cold", "again", "load", "library", "sha256")


def report_text(report: BuildReport) -> str:
    """Return the whole report as text, without colours."""
    return "\n".join(build_lines(report))


def build_lines(report: BuildReport, *, style: Style = plain) -> Iterator[str]:
    """Yield the lines of a report."""
    machine = report.machine
    where = f"{machine.name}, {machine.cores} cores, torch {machine.torch}"
    yield f"{style(report.operator, 'head')}   {style(where, 'dim')}"
    yield ""
    heads: list[Cell] = [(head, "dim") for head in _HEADS]
    yield from aligned([heads, *(_build(build) for build in report.builds if not build.left_out)], style)
    for build in report.builds:
        if build.left_out:
            yield style(f"– {build.builder} is left out: {build.left_out}", "dim")
    done = sum(not build.left_out for build in report.builds)
    if done > 1:
        same = "the same, byte for byte" if report.are_identical else "not identical"
        yield f"  the {done} libraries are {same}"
    yield ""
    names = [build.builder for build in report.builds if not build.left_out]
    title: list[Cell] = [("one call, forward", "dim"), *((name, "dim") for name in names), ("noise", "dim")]
    yield from aligned([title, *(_call(call, names) for call in report.calls)], style)
    for call in report.calls:
        for name in call.differing:
            yield style(f"✗ {name} gives other results than {names[0]} for {call.workload}", "wrong")
    yield style(
        "cold: with an empty store · again: other sources, the same store · load: in a new process · median [minimum, "
        "maximum]",
        "dim",
    )
    if report.calls:
        rounds = min(call.rounds for call in report.calls)
        yield style(
            f"calls: {rounds} rounds or more in turn, of several copies of each build · noise: memory addresses and "
            f"the machine can make equal builds differ by · {report.seconds:.0f} s",
            "dim",
        )


def _build(build: BuildTimes) -> list[Cell]:
    times = [build.cold_s, build.again_s, build.load_s]
    cells: list[Cell] = [(build.builder, ""), *((_spread(Spread.of(seconds)), "") for seconds in times)]
    return [*cells, (size(build.size_bytes), ""), (build.sha256[:8], "dim")]


def _spread(spread: Spread) -> str:
    if spread.count == 1:
        return duration(spread.median_s)
    return f"{duration(spread.median_s)} [{duration(spread.least_s)}, {duration(spread.most_s)}]"


def _call(call: CallTimes, names: list[str]) -> list[Cell]:
    cells: list[Cell] = [(f"{call.workload}, {call.dtype}", "")]
    for name in names:
        if name in call.verdicts:
            cells.append((verdict_text(call.verdicts[name]), call.verdicts[name].kind))
        else:
            cells.append((duration(call.times[name].middle), "own"))
    return [*cells, (percent(call.noise), "dim")]
