"""Measures the machine's limits, copy bandwidth and matrix products per second, once, and keeps them.

Datasheets give figures that no program reaches; a plain copy and PyTorch's own products are realistic limits. On the CPU
PyTorch has two libraries for products, each faster on some processors: the one of its matrix products, and the one of its
convolutions, where a kernel of one pixel makes a matrix product. The faster counts. The limits are measured when first
needed and kept in opsmith's cache folder by device, torch and number of threads. If other programs were running, the next
run measures again, and the best counts.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from opsmith._version import __version__
from opsmith.benchmark.clock import Call, Clock, Sample, Turns, clock_for, repeats_for
from opsmith.benchmark.conditions import Conditions
from opsmith.benchmark.machine import cache_bytes, this_machine
from opsmith.store import Store, default_root, digest
from opsmith.store.files import write_atomic
from opsmith.store.reading import parse_json, read_regular

__all__ = ["Ceilings", "ceilings"]

_FORMAT = 3
# Each figure is the best of the samples of so many seconds: what disturbs only ever makes them longer.
_SECONDS = 0.25
# What a limit's own measurement may be off.
_TOLERANCE = 1.15
# The side of a product by convolution, which is left out where it would take longer.
_CONVOLVED, _SLOW_S = 1024, 0.1
_MATMUL_TYPES = ("float64", "float32", "bfloat16", "float16")

# What this process has measured: it does not do so for each operator, be the machine quiet or not.
_measured_here: set[Path] = set()


@dataclass(frozen=True)
class Ceilings:
    """Bytes a second of a copy (read and written ones both count), and operations a second of a product by type.

    `read_bytes_s` is the same of a sum, which reads alone. `launch_s` is what the smallest operator of PyTorch takes by
    the clock.
    """

    copy_bytes_s: float
    read_bytes_s: float
    matmul_flops_s: dict[str, float]
    launch_s: float

    def seconds(self, moved: int, flops: int, dtype: str) -> tuple[float, str]:
        """Return the least time that so many bytes and operations take, and which of the two bounds it."""
        rate = self.matmul_flops_s.get(dtype) or self.matmul_flops_s["float32"]
        memory_s, compute_s = moved / self.copy_bytes_s, flops / rate
        return (compute_s, "compute") if compute_s > memory_s else (memory_s, "bandwidth")

    def possible_seconds(self, read: int, written: int, flops: int) -> float:
        """Return the time that nothing can be faster than, the measurement's own error allowed for.

        Operations may be done in any type: a kernel may take a narrower one than its inputs have.
        """
        moved_s = (read + written) / max(self.copy_bytes_s, self.read_bytes_s)
        return max(moved_s, flops / max(self.matmul_flops_s.values())) / _TOLERANCE

    def best_of(self, other: Ceilings) -> Ceilings:
        """Return the higher of two measurements of the same machine: nothing makes one too fast."""
        rates = {
            name: max(self.matmul_flops_s.get(name, 0.0), other.matmul_flops_s.get(name, 0.0))
            for name in {**self.matmul_flops_s, **other.matmul_flops_s}
        }
        copied, read = max(self.copy_bytes_s, other.copy_bytes_s), max(self.read_bytes_s, other.read_bytes_s)
        return Ceilings(copied, read, rates, min(self.launch_s, other.launch_s))


def ceilings(device: str, *, again: bool = False) -> Ceilings:
    """Return the ceilings of a device, measured now where they are not known; `again` measures and keeps the best of all.

    A cache that cannot be written is not an error.
    """
    store = Store(default_root())
    machine = this_machine(device)
    known = digest(str(_FORMAT), __version__, device, machine.name, machine.torch, str(machine.threads))
    file = store.layout.base / "ceilings" / f"{known}.json"
    found, is_final = _read(file)
    if found is not None and not again and (is_final or file in _measured_here):
        return found
    _measured_here.add(file)
    measured, is_quiet = _measure(device)
    if found is not None:
        measured = measured.best_of(found)
    text = json.dumps({**asdict(measured), "is_final": is_quiet or is_final})
    with contextlib.suppress(OSError):
        write_atomic(file, text.encode(), scratch=store.layout.staging, durable=False)
    return measured


def _read(file: Path) -> tuple[Ceilings | None, bool]:
    """Return what is known, and whether the machine was quiet when that was measured."""
    try:
        found = parse_json(read_regular(file))
        rates = {str(name): float(rate) for name, rate in found["matmul_flops_s"].items()}
        known = Ceilings(float(found["copy_bytes_s"]), float(found["read_bytes_s"]), rates, float(found["launch_s"]))
        return known, bool(found["is_final"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, False


def _measure(device: str) -> tuple[Ceilings, bool]:
    """Return the ceilings, and whether the machine was quiet while they were measured."""
    conditions = Conditions(device)
    copied, read = _memory_rates(device)
    measured = Ceilings(copied, read, _matmul_rates(device), _launch(device))
    _, warned = conditions.finish()
    return measured, not warned


def _memory_rates(device: str) -> tuple[float, float]:
    """Return the best of some copies and sums of memory that is far larger than the cache, in bytes a second."""
    count = max(4 * cache_bytes(device), 1 << 30 if device == "cuda" else 1 << 27) // 4
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    clock, size = clock_for(device), source.nbytes
    copy, total = Turns([lambda: target.copy_(source)]), Turns([source.sum])
    return 2 * size / _best(clock, copy, 1).device_s, size / _best(clock, total, 1).device_s


def _matmul_rates(device: str) -> dict[str, float]:
    size = 8192 if device == "cuda" else 512
    clock = clock_for(device)
    rates: dict[str, float] = {}
    for name in _MATMUL_TYPES:
        dtype = getattr(torch, name)
        side = size if name != "float64" else size // 2
        with contextlib.suppress(RuntimeError):  # not there in this type, or no memory for it
            rates[name] = _rate(clock, _product(device, dtype, side), side)
            # What the one library only emulates takes seconds, and the other would take as long.
            if device == "cpu" and _flops(_CONVOLVED) <= _SLOW_S * rates[name]:
                rates[name] = max(rates[name], _rate(clock, _convolution(dtype, _CONVOLVED), _CONVOLVED))
    return rates


def _rate(clock: Clock, product: Call, side: int) -> float:
    """Return the operations a second of a product of square matrices."""
    turns = Turns([product])
    return _flops(side) / _best(clock, turns, repeats_for(clock.estimate(turns))).device_s


def _flops(side: int) -> int:
    return 2 * side**3


def _product(device: str, dtype: torch.dtype, side: int) -> Call:
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    return lambda: a @ b


def _convolution(dtype: torch.dtype, side: int) -> Call:
    """Return the same product by a convolution: as many pixels and channels as the matrices have rows and columns."""
    image = torch.randn(1, side, side // 16, 16).to(dtype).contiguous(memory_format=torch.channels_last)
    kernel = torch.randn(side, side, 1, 1).to(dtype)
    return lambda: torch.nn.functional.conv2d(image, kernel)


def _launch(device: str) -> float:
    x = torch.zeros(1, device=device)
    clock, negation = clock_for(device), Turns([x.neg])
    return _best(clock, negation, 200).wall_s


def _best(clock: Clock, turns: Turns, repeats: int) -> Sample:
    """Return the shortest of the samples of some time, by each of the two clocks."""
    best = clock.sample(turns, repeats)
    started = time.perf_counter()
    while time.perf_counter() - started < _SECONDS:
        sample = clock.sample(turns, repeats)
        best = Sample(min(best.wall_s, sample.wall_s), min(best.device_s, sample.device_s))
    return best
