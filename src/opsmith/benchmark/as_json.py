"""Writes reports of a benchmark as JSON and reads them again, for `--json` and `--compare`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opsmith._version import __version__
from opsmith.benchmark.compare import Comparison
from opsmith.benchmark.result import FORMAT, BenchReport, Timing
from opsmith.benchmark.statistics import Interval
from opsmith.errors import ArgumentError
from opsmith.store.reading import parse_json, read_regular

__all__ = ["read_reports", "reports_as_json", "reports_from"]

# Of a report; those of all of the library's operators are a hundredth of it.
_MOST_BYTES = 256 << 20


def reports_as_json(reports: Iterable[BenchReport], comparison: Comparison | None = None) -> str:
    """Return reports as JSON, ending in a newline; `comparison` is what --compare found."""
    listed = list(reports)
    content: dict[str, Any] = {
        "format": FORMAT,
        "opsmith": __version__,
        "ok": all(report.ok for report in listed) and (comparison is None or comparison.ok),
        "operators": [json.loads(report.to_json()) for report in listed],
    }
    if comparison is not None:
        content["comparison"] = {
            "changes": [{**asdict(change), "kind": change.kind} for change in comparison.changes],
            "lost": list(comparison.lost),
            "missing": list(comparison.missing),
            "new": list(comparison.new),
        }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def read_reports(file: Path) -> tuple[BenchReport, ...]:
    """Return the reports of a file that `opsmith bench --json` or `BenchReport.to_json` has written.

    Raises ArgumentError, with what is wrong with it, for a file that is not there or is not such a report.
    """
    try:
        content = parse_json(read_regular(file, most=_MOST_BYTES))
    except OSError as error:
        raise ArgumentError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{file} is not a report of opsmith bench: it is not text") from error
    except json.JSONDecodeError as error:
        is_whole = error.doc.rstrip().endswith(("}", "]"))
        cut = "" if is_whole else " It is truncated: was writing it interrupted?"
        raise ArgumentError(f"{file} is not a report of opsmith bench: it is not JSON ({error}).{cut}") from error
    except ValueError as error:
        raise ArgumentError(f"{file} is not a report of opsmith bench: {error}") from error
    try:
        return reports_from(content)
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{file} is not a report of opsmith bench: {error}") from error


def reports_from(content: Any) -> tuple[BenchReport, ...]:
    """Return the reports in what `json.loads` has made of a report; raises ValueError if it is not one."""
    parts = content["operators"] if isinstance(content, dict) and "operators" in content else [content]
    if not isinstance(parts, list) or not parts:
        raise ValueError("it names no operator")
    reports = tuple(BenchReport.from_json(json.dumps(part)) for part in parts)
    for report in reports:
        _check(report)
    return reports


def _check(report: BenchReport) -> None:
    """Raise ValueError if a report has something else than numbers for its times."""
    for timing in report.timings:
        for interval in _intervals(timing):
            numbers = (interval.low, interval.middle, interval.high)
            if not all(isinstance(number, int | float) and math.isfinite(number) and number > 0 for number in numbers):
                case = f"{timing.competitor}, {timing.dtype}, {timing.workload}, {timing.phase}"
                raise ValueError(f"the time of {case} is {numbers}")


def _intervals(timing: Timing) -> list[Interval]:
    ratios = [verdict.ratio for verdict in (timing.verdict, timing.wall_verdict) if verdict is not None]
    return [*ratios, *(interval for interval in (timing.time, timing.wall) if interval is not None)]
