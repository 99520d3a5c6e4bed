"""Measures how often `opsmith bench --compare` reports a false slowdown, and how often it finds a planted one.

    python benchmarks/compare_trust.py [--processes 10] [--folder DIR] [--output benchmarks/results/compare_trust.json]

One operator is timed in several processes, one after the other; reports that DIR already has are reused. Then reports are
drawn from them: as many for each side of a comparison as `--runs` would make, none for both sides. A slowdown is planted by
lengthening the times of one side. Splits of one set of reports are not independent of each other, so the counts are less
conclusive than the same number of comparisons of fresh reports.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from opsmith.benchmark.as_json import read_reports
from opsmith.benchmark.compare import compare_reports
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.runs import combined
from opsmith.benchmark.statistics import Interval

TARGET = ("opsmith.ops.lltm::lltm_gates", "--phase=forward", "--against=eager", "--seconds=6")
SPLITS = 60
# Processes then and now.
RUNS, SLOWER = ((1, 1), (1, 5), (2, 2), (3, 3), (5, 5)), (1.1, 1.2, 1.5)


def make_reports(folder: Path, count: int) -> list[BenchReport]:
    for number in range(count):
        file = folder / f"s{number}.json"
        if not file.is_file():
            argv = [sys.executable, "-m", "opsmith", "bench", *TARGET, "--device=cpu", "--json", str(file)]
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return [read_reports(folder / f"s{number}.json")[0] for number in range(count)]


def slowed(report: BenchReport, factor: float) -> BenchReport:
    def times(interval: Interval | None, by: float) -> Interval | None:
        return interval and Interval(interval.middle * by, interval.low * by, interval.high * by)

    def change(timing: Timing) -> Timing:
        if timing.is_own:
            return replace(timing, time=times(timing.time, factor), wall=times(timing.wall, factor))
        found = timing.verdict
        return replace(timing, verdict=found and replace(found, ratio=times(found.ratio, 1 / factor)))

    return replace(report, timings=tuple(map(change, report.timings)))


def evaluate(reports: list[BenchReport]) -> list[dict[str, object]]:
    draw, rows = random.Random(0), []
    for then, now in RUNS:
        drawn = [draw.sample(reports, then + now) for _ in range(SPLITS if then + now <= len(reports) else 0)]
        pairs = [(combined(both[:then]), combined(both[then:])) for both in drawn]
        found = {f"{factor:g}": sum(_is_slower(old, slowed(new, factor)) for old, new in pairs) for factor in SLOWER}
        false = sum(_is_slower(old, new) for old, new in pairs)
        rows.append({"then": then, "now": now, "comparisons": len(pairs), "false_alarms": false, "found": found})
    return rows


def _is_slower(old: BenchReport, new: BenchReport) -> bool:
    return not compare_reports([old], [new]).ok


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        reports = make_reports(arguments.folder or Path(scratch), arguments.processes)
    machine = reports[0].machine.as_json()
    result = {"date": reports[0].date, "machine": machine, "what": " ".join(TARGET), "rows": evaluate(reports)}
    print(json.dumps(result, indent=2))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
