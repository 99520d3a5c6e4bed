"""Cores and memory are those that this process may use, not those that the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opsmith.toolchain.resources import available_memory_bytes, cpu_count

GIB = 1 << 30
V2_MOUNT = "30 23 0:26 {shown} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1_MOUNT = "35 31 0:32 {shown} /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"


class System:
    """A root folder with the files of proc and sys that are asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("proc/meminfo", f"MemTotal: {24 * GIB // 1024} kB\nMemAvailable:   {20 * GIB // 1024} kB\n")

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def groups(self, cgroup: str, mountinfo: str) -> None:
        self.put("proc/self/cgroup", cgroup)
        self.put("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mountinfo)

    def v2_memory(self, group: str, limit: str, used: int, cache: int = 0, high: str = "max") -> None:
        folder = f"sys/fs/cgroup{group}"
        self.put(f"{folder}/memory.max", f"{limit}\n")
        self.put(f"{folder}/memory.high", f"{high}\n")
        self.put(f"{folder}/memory.current", f"{used}\n")
        self.put(f"{folder}/memory.stat", f"anon 1\nactive_file {cache // 2}\ninactive_file {cache // 2}\n")


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


def test_without_groups_the_machine_decides(system, eight_cores):
    assert available_memory_bytes(system.root) == 20 * GIB
    assert cpu_count(system.root) == 8


def test_a_limit_of_version_2_counts_what_is_used_but_for_caches(system):
    system.groups("0::/job\n", V2_MOUNT.format(shown="/"))
    system.v2_memory("/job", str(4 * GIB), used=3 * GIB, cache=2 * GIB)
    assert available_memory_bytes(system.root) == 3 * GIB


def test_the_lower_of_max_and_high_is_the_limit(system):
    system.groups("0::/job\n", V2_MOUNT.format(shown="/"))
    system.v2_memory("/job", str(4 * GIB), used=GIB, high=str(2 * GIB))
    assert available_memory_bytes(system.root) == GIB


def test_a_limit_of_a_group_above_holds_too(system, eight_cores):
    system.groups("0::/slice/job\n", V2_MOUNT.format(shown="/"))
    system.v2_memory("/slice/job", "max", used=0)
    system.v2_memory("/slice", str(2 * GIB), used=GIB)
    system.put("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n")
    system.put("sys/fs/cgroup/slice/cpu.max", "250000 100000\n")
    assert available_memory_bytes(system.root) == GIB
    assert cpu_count(system.root) == 3


def test_limits_of_version_1(system, eight_cores):
    mounts = "".join(V1_MOUNT.format(shown="/", name=name) for name in ("memory", "cpu"))
    system.groups("4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n", mounts)
    system.put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{4 * GIB}\n")
    system.put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", f"{3 * GIB}\n")
    stat = f"active_file 5\ntotal_active_file {GIB}\ntotal_inactive_file {GIB // 2}\n"
    system.put("sys/fs/cgroup/memory/job/memory.stat", stat)
    system.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    system.put("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{30 * GIB}\n")
    system.put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n")
    system.put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
    system.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    system.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert available_memory_bytes(system.root) == 2.5 * GIB
    assert cpu_count(system.root) == 1


def test_a_container_that_sees_its_own_part_of_the_tree(system):
    system.groups("0::/docker/abc\n", V2_MOUNT.format(shown="/docker/abc"))
    system.v2_memory("", str(GIB), used=0)
    assert available_memory_bytes(system.root) == GIB


def test_a_group_that_is_full_has_nothing_left(system):
    system.groups("0::/job\n", V2_MOUNT.format(shown="/"))
    system.v2_memory("/job", str(GIB), used=2 * GIB)
    assert available_memory_bytes(system.root) == 0


@pytest.mark.parametrize("text", ["", "nonsense\n", "0::/../outside\n", "::\n"])
def test_files_that_make_no_sense_are_passed_over(system, text):
    system.groups(text, text)
    assert available_memory_bytes(system.root) == 20 * GIB


def test_without_proc_the_whole_memory_is_told(tmp_path):
    assert available_memory_bytes(tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_this_machine():
    assert 1 <= cpu_count() <= (os.cpu_count() or 1)
    available = available_memory_bytes()
    assert available is not None
    assert 0 < available <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
