"""Reads the GPU's own counters for a call with Nsight Compute, where it is installed and allowed to.

The call is repeated in a process of its own below `ncu`, with the same arguments: the bytes that really went to and from
memory, and the warps that really were active.
"""

from __future__ import annotations

import csv
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from opsmith import _subprocess
from opsmith.profiler.loops import Call
from opsmith.spec.definition import Definition

__all__ = ["ask_ncu", "parse_ncu"]

_TIMEOUT_S = 120
# Metric -> what it is called in a report, and what it is multiplied with to be that.
_METRICS = {
    "gpu__time_duration.sum": ("seconds", 1e-9),
    "dram__bytes_read.sum": ("dram_read_bytes", 1.0),
    "dram__bytes_write.sum": ("dram_written_bytes", 1.0),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("dram_share", 0.01),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("occupancy", 0.01),
    "launch__registers_per_thread": ("registers", 1.0),
}
# What base units are called that are not the unit themselves.
_SCALES = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def ask_ncu(definition: Definition, call: Call, phase: str) -> dict[str, Any]:
    """Return the counters of one call, `{"kernels": [...]}`, or why there are none, `{"missing": "..."}`."""
    tool = shutil.which("ncu")
    if tool is None:
        return {"missing": "ncu (Nsight Compute) is not on PATH"}
    with tempfile.TemporaryDirectory(prefix="opsmith-ncu-") as folder:
        given = Path(folder) / "call.pt"
        torch.save(call, given)
        # Clocks stay as they are: setting them may not be permitted, and the usual ones are of interest.
        argv = [tool, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
        argv += ["--profile-from-start", "off", "--metrics", ",".join(_METRICS)]
        child = [
            sys.executable,
            "-m",
            "opsmith.profiler.one_call",
            definition.module,
            definition.name,
            phase,
            str(given),
        ]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPSMITH_BRIDGE": "auto"}
        done = _subprocess.ask([*argv, *child], timeout_s=_TIMEOUT_S, env=environment)
    if isinstance(done, str):
        return {"missing": done}
    return parse_ncu(done.output, done.status)


def parse_ncu(text: str, status: int) -> dict[str, Any]:
    """Return what `ncu --csv --page raw` printed: a mapping for each kernel, or what kept it from saying anything."""
    if "ERR_NVGPUCTRPERM" in text:
        return {
            "missing": "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM); run as root, or "
            "load the module nvidia with NVreg_RestrictProfilingToAdminUsers=0"
        }
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    if len(rows) < 3:
        errors = [line for line in text.splitlines() if line.startswith("==ERROR==")] or text.strip().splitlines()[-1:]
        return {"missing": f"ncu reported nothing (exit status {status}): {' '.join(errors)[:300]}"}
    head, units, *values = rows
    kernels = []
    for row in values:
        of = dict(zip(head, row, strict=False))
        unit = dict(zip(head, units, strict=False))
        found: dict[str, Any] = {"name": of.get("Kernel Name", "")}
        for metric, (name, factor) in _METRICS.items():
            number = _number(of.get(metric, ""))
            if number is not None:
                found[name] = number * factor * _SCALES.get(unit.get(metric, ""), 1.0)
        kernels.append(found)
    return {"kernels": kernels}


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
