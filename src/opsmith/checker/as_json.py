"""Turns reports into plain data for programs; `format` grows by one where a key has to change its meaning."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable
from typing import Any

import torch

from opsmith._version import __version__
from opsmith.checker.outcome import Finding
from opsmith.checker.report import Report, Result
from opsmith.subject.case import Case, TensorRecipe
from opsmith.toolchain.processor import processor_name
from opsmith.toolchain.resources import usable_cores

__all__ = ["machine_facts", "report_as_json", "reports_as_json"]

_FORMAT = 1
_MOST_VALUES = 64


def reports_as_json(reports: Iterable[Report]) -> dict[str, Any]:
    """Return reports as what `json.dumps` takes."""
    listed = list(reports)
    return {
        "format": _FORMAT,
        "ok": all(report.ok for report in listed),
        "machine": machine_facts(),
        "operators": [report_as_json(report) for report in listed],
    }


def machine_facts() -> dict[str, Any]:
    """Return the versions and the machine, on which results depend."""
    return {
        "opsmith": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor_name(),
        "cores": usable_cores(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def report_as_json(report: Report) -> dict[str, Any]:
    """Return one report as what `json.dumps` takes."""
    columns: dict[str, dict[str, None]] = {}
    for result in report.results:
        known = columns.setdefault(result.column.device, {})
        if result.column.dtype:
            known[result.column.dtype] = None
    return {
        "name": report.operator,
        "ok": report.ok,
        "failed": list(report.failed),
        "seed": report.seed,
        "seconds": round(report.seconds, 3),
        "notes": list(report.notes),
        "columns": {device: list(known) for device, known in columns.items()},
        "results": [_result(result) for result in report.results],
    }


def _result(result: Result) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "property": result.name,
        "device": result.column.device,
        "dtype": result.column.dtype or None,  # None: checked once on the device
        "state": outcome.state,
        "is_error": outcome.is_error,
        "is_out_of_time": outcome.is_out_of_time,
        "inputs": outcome.inputs,
        "refused": outcome.refused,
        "left_out": outcome.left_out,
        "note": outcome.note,
        "seconds": round(outcome.seconds, 4),
        "findings": [_finding(finding) for finding in outcome.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "message": finding.message,
        "hint": finding.hint,
        "snippet": finding.snippet,
        "case": _case(finding.case) if finding.case is not None else None,
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "label": case.label,
        "group": case.group,
        "arguments": {name: _value(value) for name, value in case.arguments.items()},
    }


def _value(value: Any) -> Any:
    if isinstance(value, TensorRecipe):
        made = {"shape": list(value.shape), "dtype": value.dtype, "layout": value.layout, "values": value.values}
        if value.given is None:
            return made | {"seed": value.seed}
        return made | ({"given": _value(value.numbers().tolist())} if math.prod(value.shape) <= _MOST_VALUES else {})
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
