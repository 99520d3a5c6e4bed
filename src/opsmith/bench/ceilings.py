"""What can this machine do at most? Its copy bandwidth and the rate of its matrix products, measured once and kept.

Datasheets name what no program reaches; a plain copy and PyTorch's own matrix product are what one can hope for. They are
measured when they are first needed and kept in opsmith's cache folder for this device, this torch and this number of
threads.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch

from opsmith._version import __version__
from opsmith.bench.clock import Call, clock_for, repeats_for
from opsmith.bench.machine import cache_bytes, this_machine
from opsmith.store import Store, default_root, digest
from opsmith.store.files import write_atomic

__all__ = ["Ceilings", "ceilings"]

_FORMAT = 1
_ROUNDS = 9
_MATMUL_TYPES = ("float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Ceilings:
    """Bytes a second of a copy (read and written ones both count), and operations a second of a product by type.

    `launch_s` is what the smallest operator of PyTorch takes by the clock.
    """

    copy_bytes_s: float
    matmul_flops_s: dict[str, float]
    launch_s: float

    def seconds(self, moved: int, flops: int, dtype: str) -> tuple[float, str]:
        """Return the least time that so many bytes and operations take, and which of the two bounds it."""
        rate = self.matmul_flops_s.get(dtype) or self.matmul_flops_s["float32"]
        memory_s, compute_s = moved / self.copy_bytes_s, flops / rate
        return (compute_s, "compute") if compute_s > memory_s else (memory_s, "bandwidth")


def ceilings(device: str, *, again: bool = False) -> Ceilings:
    """Return the ceilings of a device, measured now where they are not known; a cache that cannot be written is no error."""
    store = Store(default_root())
    machine = this_machine(device)
    known = digest(str(_FORMAT), __version__, device, machine.name, machine.torch, str(machine.threads))
    place = store.layout.base / "ceilings" / f"{known}.json"
    if not again and (found := _read(place)) is not None:
        return found
    measured = Ceilings(_copy_rate(device), _matmul_rates(device), _launch(device))
    text = {
        "copy_bytes_s": measured.copy_bytes_s,
        "matmul_flops_s": measured.matmul_flops_s,
        "launch_s": measured.launch_s,
    }
    with contextlib.suppress(OSError):
        write_atomic(place, json.dumps(text).encode(), scratch=store.layout.staging, durable=False)
    return measured


def _read(place: Path) -> Ceilings | None:
    try:
        found = json.loads(place.read_bytes())
        rates = {str(name): float(rate) for name, rate in found["matmul_flops_s"].items()}
        return Ceilings(float(found["copy_bytes_s"]), rates, float(found["launch_s"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _copy_rate(device: str) -> float:
    """Return the best of some copies of memory that is far larger than the cache."""
    size = max(4 * cache_bytes(device), 1 << 30 if device == "cuda" else 1 << 27)
    source = torch.empty(size, dtype=torch.int8, device=device).random_(0, 100)
    target = torch.empty_like(source)
    clock = clock_for(device)
    best = min(clock.sample([lambda: target.copy_(source)], 1).device_s for _ in range(_ROUNDS))
    return 2 * size / best


def _matmul_rates(device: str) -> dict[str, float]:
    size = 8192 if device == "cuda" else 512
    clock = clock_for(device)
    rates = {}
    for name in _MATMUL_TYPES:
        dtype = getattr(torch, name)
        side = size if name != "float64" else size // 2
        try:
            a = torch.randn(side, side, device=device, dtype=torch.float32).to(dtype)
            b = torch.randn(side, side, device=device, dtype=torch.float32).to(dtype)
            call = _product(a, b)
            repeats = repeats_for(clock.estimate([call]))
            best = min(clock.sample([call], repeats).device_s for _ in range(_ROUNDS))
        except RuntimeError:
            continue
        rates[name] = 2 * side**3 / best
    return rates


def _product(a: torch.Tensor, b: torch.Tensor) -> Call:
    return lambda: a @ b


def _launch(device: str) -> float:
    x = torch.zeros(1, device=device)
    clock = clock_for(device)
    return min(clock.sample([x.neg], 200).wall_s for _ in range(_ROUNDS))
