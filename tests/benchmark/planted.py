"""Reports with figures that are made up, to see how they are shown and compared."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from opsmith.benchmark.machine import Machine
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.statistics import Interval, Verdict, judge

CPU = Machine("cpu", "Planted CPU", 8, 4, "Linux-6.1", "2.13.0+cpu", "3.11.2")
GPU = Machine("cuda", "Planted GPU", 16, 8, "Linux-6.8", "2.11.0+cu130", "3.12.3", "580.65")
LIMITS = {"copy_bytes_s": 4e12, "matmul_flops_s": {"float32": 5e13, "bfloat16": 7e14}, "launch_s": 4e-6}
SIZES = {"B 64, N 64": 64 * 64, "B 64, N 4096": 64 * 4096, "B 4096, N 4096": 4096 * 4096}
# Competitor -> how many times the operator's time it takes at the three sizes.
OTHERS: Mapping[str, tuple[float, ...]] = {
    "eager": (5.2, 4.1, 3.0),
    "compiled": (2.4, 1.35, 1.0),
    "reduce-overhead": (1.6, 1.3, 1.004),
    "max-autotune": (2.3, 1.2, 0.94),
    "graph": (0.71, 0.98, 1.0),
}


def around(middle: float, part: float = 0.01) -> Interval:
    return Interval(middle, middle * (1 - part), middle * (1 + part))


def verdict(ratio: float, part: float = 0.01, noise: float = 0.01) -> Verdict:
    return judge(around(ratio, part), noise)


def timing(
    size: str,
    competitor: str,
    seconds: float,
    *,
    ratio: float | None = None,
    dtype: str = "float32",
    phase: str = "forward",
    **more: Any,
) -> Timing:
    """One timing of some seconds; `ratio` is how many times as fast the operator is."""
    judged = {} if ratio is None else {"verdict": verdict(ratio), "wall_verdict": verdict(ratio)}
    place = (size, dtype, phase, competitor)
    return Timing(*place, **{"time": around(seconds), "wall": around(seconds), "rounds": 40, **judged, **more})


def report(*timings: Timing, machine: Machine = CPU, **more: Any) -> BenchReport:
    given = {"seed": 0, "seconds": 12.0, "limits": LIMITS, "date": "2026-01-02T03:04:05+00:00", **more}
    return BenchReport("kit.smooth", machine, timings, **given)


def small(own: float = 1e-5, eager: float = 3e-5, machine: Machine = CPU, **more: Any) -> BenchReport:
    """The smallest useful report: one size, the operator and its reference."""
    timings = (
        timing("B 64, N 64", "opsmith", own, share=0.5, bound="bandwidth", bytes_moved=32_768),
        timing("B 64, N 64", "eager", eager, ratio=eager / own, bytes_moved=32_768),
    )
    return report(*timings, machine=machine, **more)


def large(*, flops_per_byte: float = 0.0, device: str = "cuda") -> BenchReport:
    """Three sizes, two element types, all phases and competitors, as of a whole run."""
    noise = random.Random(0)
    timings = []
    for dtype, width in (("float32", 4), ("bfloat16", 2)):
        for phase, moved in (("forward", 2), ("backward", 3), ("both", 5)):
            for index, (size, elements) in enumerate(SIZES.items()):
                nbytes = moved * elements * width
                own = (3.1e-6 + nbytes / 4e12 * 1.18) * (0.99 + 0.02 * noise.random())
                flops = int(flops_per_byte * nbytes)
                least = max(nbytes / 4e12, flops / LIMITS["matmul_flops_s"][dtype])  # type: ignore[index]
                own = max(own, least * 1.1)
                for name, factors in {"opsmith": (1.0,) * 3, **OTHERS}.items():
                    if name == "graph" and phase != "forward":
                        continue
                    seconds = own * factors[index] * (0.995 + 0.01 * noise.random())
                    timings.append(
                        timing(
                            size,
                            name,
                            seconds,
                            ratio=None if name == "opsmith" else seconds / own,
                            dtype=dtype,
                            phase=phase,
                            wall=around(seconds + 5e-6, 0.03) if device == "cuda" else around(seconds),
                            share=least / seconds,
                            bound="launch"
                            if index == 0
                            else "compute"
                            if flops / 5e13 > nbytes / 4e12
                            else "bandwidth",
                            bytes_moved=nbytes,
                            flops=flops,
                            peak_bytes=math.ceil(elements * width * (1 if name in ("opsmith", "graph") else 3)),
                            prepare_s=8.4 if name in OTHERS and name not in ("eager", "graph") else 0.01,
                            kernel_s=seconds * 0.9,
                            kernels=1 if name in ("opsmith", "graph") else 4,
                            notes=("the inputs stay in the cache",) if index == 0 else (),
                        )
                    )
    return report(
        *timings, machine=GPU if device == "cuda" else CPU, conditions={"before": {"celsius": 41, "sm_mhz": 1980}}
    )
