"""Measures how many cores and how much memory this process may use.

A container or a batch job is given less than the machine has, by control groups (cgroups, version 1 or 2; see the Linux
kernel's admin-guide/cgroup-v2 and admin-guide/cgroup-v1). A limit may stand in any group above the process's own, so all
of them are read.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory_bytes", "cpu_count", "usable_cores"]

# What cgroup v1 says if there is no limit: the largest number of pages, in bytes.
_UNLIMITED_V1_BYTES = 1 << 60

# Pages of files and the kernel's caches are given back before a limit kills a process: they are not in use. Version 1
# counts the groups below in the names with total_.
_RECLAIMABLE = frozenset(
    {"active_file", "inactive_file", "slab_reclaimable", "total_active_file", "total_inactive_file"}
)


def usable_cores() -> int:
    """Return on how many cores this process may run, whatever share of their time it has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_count(root: Path = Path("/")) -> int:
    """Return how many cores this process may use: those it may run on, or fewer where its group has a quota.

    `root` is the folder that has proc and sys. Never less than 1.
    """
    quotas = [_quota_v2(folder) for folder in _groups(root, "")]
    quotas += [_quota_v1(folder) for folder in _groups(root, "cpu")]
    return max(1, min([usable_cores(), *(math.ceil(quota) for quota in quotas if quota is not None)]))


def available_memory_bytes(root: Path = Path("/")) -> int | None:
    """Return how much memory this process and those that it starts can still get without swapping or being killed.

    The least of what the machine has available and what each of the process's groups has left; caches that the kernel
    would give back count as available. Where the system does not say (not Linux) it is the whole memory, and None if
    not even that is known.
    """
    left = [_machine_available(root)]
    left += [_memory_left_v2(folder) for folder in _groups(root, "")]
    left += [_memory_left_v1(folder) for folder in _groups(root, "memory")]
    return min((size for size in left if size is not None), default=None)


def _machine_available(root: Path) -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", _read(root / "proc/meminfo"), re.MULTILINE)
    if found is not None:
        return int(found[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _memory_left_v2(folder: Path) -> int | None:
    # Above `high` a group is slowed down until it is of no use, long before `max` kills.
    limits = [limit for name in ("memory.max", "memory.high") if (limit := _number(folder / name)) is not None]
    used = _number(folder / "memory.current")
    return None if not limits or used is None else max(0, min(limits) - used + _reclaimable(folder, is_total=False))


def _memory_left_v1(folder: Path) -> int | None:
    limit, used = _number(folder / "memory.limit_in_bytes"), _number(folder / "memory.usage_in_bytes")
    if limit is None or used is None or limit >= _UNLIMITED_V1_BYTES:
        return None
    return max(0, limit - used + _reclaimable(folder, is_total=True))


def _reclaimable(folder: Path, *, is_total: bool) -> int:
    rows = (line.split() for line in _read(folder / "memory.stat").splitlines())
    counts = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    return sum(counts.get(name, 0) for name in _RECLAIMABLE if name.startswith("total_") == is_total)


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return _ratio(quota, period)


def _quota_v1(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    quota, period = quota.strip(), period.strip()
    # "max" and -1 mean no quota.
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group for a controller ("": version 2) and of every group above it."""
    group = _group_of(root, controller)
    mount = _mount_of(root, controller)
    if group is None or mount is None:
        return
    shown, mount_point = mount
    # Inside a container the mount may show only a part of the tree, whose root has the group's own name.
    relative = group.relative_to(shown) if group.is_relative_to(shown) else Path()
    folder = mount_point / relative
    yield folder
    for above in folder.parents:
        if not above.is_relative_to(mount_point):
            return
        yield above


def _group_of(root: Path, controller: str) -> Path | None:
    """Return the path of this process's group, from lines such as `4:memory:/job` or `0::/user.slice`."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        # A path through `..` is outside of what this process's namespace shows.
        if controller in controllers.split(",") and ".." not in Path(path).parts:
            return Path(path)
    return None


def _mount_of(root: Path, controller: str) -> tuple[Path, Path] | None:
    """Return which group a controller's mount shows at its top, and where it is mounted."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        front, _, back = line.partition(" - ")
        fields, (kind, _, options) = front.split(), [*back.split(), "", "", ""][:3]
        is_wanted = kind == "cgroup" and controller in options.split(",") if controller else kind == "cgroup2"
        if is_wanted and len(fields) > 4:
            return Path(_unescape(fields[3])), root / _unescape(fields[4]).lstrip("/")
    return None


def _unescape(path: str) -> str:
    """Undo what mountinfo does to blanks: a backslash and three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _number(file: Path) -> int | None:
    text = _read(file).strip()
    return int(text) if text.isdigit() else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
