"""Examines how many compilers can run at once."""

from __future__ import annotations

from dataclasses import dataclass

from opsmith.build.jobs import TORCH_PEAK_BYTES
from opsmith.doctor.finding import Finding, ok, warning
from opsmith.store.units import show_size
from opsmith.toolchain.resources import available_memory_bytes, cpu_count

__all__ = ["MemoryState", "find_memory_state", "judge_memory"]


@dataclass(frozen=True)
class MemoryState:
    """What this process may use."""

    cores: int
    available_bytes: int | None


def find_memory_state() -> MemoryState:
    """Return what this process may use, with the limits of containers and batch jobs."""
    return MemoryState(cpu_count(), available_memory_bytes())


def judge_memory(state: MemoryState) -> tuple[Finding, ...]:
    """Return what there is to say about cores and memory."""
    title = f"{state.cores} core{'' if state.cores == 1 else 's'}"
    if state.available_bytes is None:
        return (ok("memory", title),)
    title += f", {show_size(state.available_bytes)} free"
    fitting = state.available_bytes // TORCH_PEAK_BYTES
    if fitting >= state.cores:
        return (ok("memory", title, "enough for a compiler on each core"),)
    detail = (
        f"A file that includes torch/extension.h takes {show_size(TORCH_PEAK_BYTES)} to compile: {fitting} fit into "
        "memory at once, and opsmith starts no more. A tool that starts one per core may be killed."
    )
    return (warning("memory", title, detail, f"export MAX_JOBS={max(fitting, 1)}"),)
