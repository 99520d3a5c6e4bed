"""Counts what a process holds: memory of malloc's, of a GPU and mapped, Python objects, open files and threads."""

from __future__ import annotations

import gc
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from opsmith.checker.memory.heap import heap_bytes

__all__ = ["FewHeld", "Held", "few_held", "held"]


@dataclass(frozen=True)
class Held:
    """What is held at one moment: memory in bytes, the others by number."""

    heap: int
    device: int
    objects: int
    mapped: int


@dataclass(frozen=True)
class FewHeld:
    """What a process may have few of."""

    files: int
    threads: int


def few_held() -> FewHeld:
    """Return how many files this process has open, and its threads; 0 where /proc does not say."""
    return FewHeld(_count("fd"), _count("task"))


def held(device: str) -> Held:
    """Return what this process holds, and on a device other than the CPU what PyTorch has allocated there."""
    gc.collect()
    allocated = 0
    if device != "cpu":
        torch.cuda.synchronize()
        allocated = torch.cuda.memory_allocated()
    heap = heap_bytes() or 0
    return Held(heap, allocated, sys.getallocatedblocks(), _mapped_bytes() - heap)


def _mapped_bytes() -> int:
    """Return how much memory is mapped, malloc's included; 0 where /proc does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _count(folder: str) -> int:
    """Return how many entries a folder of this process has in /proc."""
    try:
        return sum(1 for _ in Path("/proc/self", folder).iterdir())
    except OSError:
        return 0
