"""Says how much memory there is to try large tensors in: of addresses alone, and of memory that is written to."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

__all__ = ["available_address_bytes", "available_memory_bytes", "size_text"]


def available_address_bytes(device: str) -> int:
    """Return how large an allocation may be whose pages are never touched; a GPU has no such memory.

    Linux refuses one that is larger than all memory and swap together (vm.overcommit_memory = 0, the default), none
    at all (1), or counts every page as if it were used (2).
    """
    if device != "cpu" or sys.platform != "linux":
        return available_memory_bytes(device)
    info = _meminfo()
    try:
        mode = Path("/proc/sys/vm/overcommit_memory").read_text(encoding="ascii").strip()
    except OSError:
        mode = "0"
    if mode == "2":
        free = info.get("CommitLimit", 0) - info.get("Committed_AS", 0)
    else:
        free = info.get("MemTotal", 0) + info.get("SwapTotal", 0) if mode == "0" else 1 << 46
    return min(free, _limit_bytes())


def available_memory_bytes(device: str) -> int:
    """Return how much memory is free for tensors that are filled."""
    if device != "cpu":
        return int(torch.cuda.mem_get_info()[0])
    if sys.platform != "linux":
        return 0
    free = _meminfo().get("MemAvailable", 0)
    for file, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            limit, taken = (Path(name).read_text(encoding="ascii").strip() for name in (file, used))
        except OSError:
            continue
        if limit.isdigit():
            free = min(free, int(limit) - int(taken))
    return max(0, min(free, _limit_bytes()))


def size_text(size_bytes: int) -> str:
    """Return a size in words."""
    return f"{size_bytes / 1e9:.0f} GB"


def _meminfo() -> dict[str, int]:
    found = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return found


def _limit_bytes() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return soft if soft >= 0 else 1 << 46
