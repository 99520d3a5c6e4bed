"""Describes the machine that something is timed on: name, caches, threads; a GPU's clocks, heat and throttling."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from opsmith import _subprocess
from opsmith.toolchain.resources import usable_cores

__all__ = ["GpuState", "Machine", "cache_bytes", "gpu_state", "load_warning", "this_machine"]

_DEFAULT_CACHE = 32 << 20
_GPU_QUERY = (
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "temperature.gpu",
    "power.draw",
    "clocks_event_reasons.active",
)
# Bits of the driver's reasons for lower clocks that do not mean throttling: idle, and clocks set by the user.
_HARMLESS_REASONS = 0x1 | 0x2
# An H200 that has just copied at its full rate names its power limit as a reason at 1,965 of 1,980 MHz.
_NEARLY_FULL = 0.98


@dataclass(frozen=True)
class Machine:
    """What a result was measured on. `name` is the processor or the GPU; `threads` are PyTorch's on the CPU."""

    device: str
    name: str
    cores: int
    threads: int
    system: str
    torch: str
    python: str
    driver: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the machine as JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class GpuState:
    """A GPU's clocks in MHz, its temperature in degrees Celsius, its power in watts, and why its clocks are lowered."""

    sm_mhz: float
    memory_mhz: float
    most_sm_mhz: float
    celsius: float
    watts: float
    reasons: int

    def as_json(self) -> dict[str, Any]:
        """Return the state as JSON has it."""
        return {**asdict(self), "is_throttled": self.is_throttled}

    @property
    def is_throttled(self) -> bool:
        """Whether heat or power holds the clocks down, by more than a timing's own noise."""
        return bool(self.reasons & ~_HARMLESS_REASONS) and self.sm_mhz < _NEARLY_FULL * self.most_sm_mhz


def this_machine(device: str) -> Machine:
    """Return what is here, for "cpu" or "cuda"."""
    driver = ""
    if device == "cuda":
        name = torch.cuda.get_device_name()
        driver = next(iter(_nvidia_smi("driver_version")), "")
    else:
        name = _processor()
    return Machine(
        device,
        name,
        usable_cores(),
        torch.get_num_threads(),
        platform.platform(),
        str(torch.__version__),
        platform.python_version(),
        driver,
    )


@cache
def cache_bytes(device: str) -> int:
    """Return the size of the last cache before memory: a GPU's L2, a processor's L3."""
    if device == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return int(getattr(properties, "L2_cache_size", 0) or _DEFAULT_CACHE)
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        number = int(text.rstrip("KMG") or 0)
        sizes.append(number << {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0))
    return max(sizes, default=_DEFAULT_CACHE)


def gpu_state() -> GpuState | None:
    """Return the state of PyTorch's current GPU, or None if there is no nvidia-smi or it does not say."""
    values = _nvidia_smi(*_GPU_QUERY)
    try:
        sm, memory, most_sm, celsius, watts = (float(value) for value in values[:5])
        return GpuState(sm, memory, most_sm, celsius, watts, int(values[5], 16))
    except (ValueError, IndexError, TypeError):
        return None


def load_warning(device: str) -> str | None:
    """Return what is wrong with timing on this machine now, or None."""
    if device == "cuda":
        state = gpu_state()
        if state is not None and state.is_throttled:
            return f"the GPU is throttled to {state.sm_mhz:.0f} of {state.most_sm_mhz:.0f} MHz ({state.celsius:.0f} C)"
        return None
    if not hasattr(os, "getloadavg"):
        return None
    busy = os.getloadavg()[0]
    if busy > 0.5 * usable_cores():
        return f"other programs are running: a load of {busy:.1f} on {usable_cores()} cores in the last minute"
    return None


def _nvidia_smi(*fields: str) -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    argv = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "-i", _gpu_id()]
    done = _subprocess.run(argv)
    return [word.strip() for word in done.output.strip().split(",")] if done.status == 0 else []


@cache
def _gpu_id() -> str:
    """Return what the driver calls PyTorch's current GPU, which counts those alone that the process is shown."""
    index = torch.cuda.current_device()
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    return str(index) if uuid is None else f"GPU-{uuid}"


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
