"""Namespaces around a process: no network, no other processes, and mounts of its own, of which most are read-only."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opsmith.judging.inside.system_calls import bound, call, prctl

__all__ = ["DEATH_SIGNAL", "Namespaces", "enter", "make_read_only"]

DEATH_SIGNAL = 1  # of prctl
_MOST_PROCESSES = 4096
_SHARED_MEMORY = Path("/dev/shm")
_SHARED_MIB = 64
# What of /proc is of the machine: the user `root` may write there without any capability.
_OF_THE_MACHINE = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")

_NEW_USER, _NEW_NET, _NEW_IPC, _NEW_UTS = 0x10000000, 0x40000000, 0x08000000, 0x04000000
_NEW_MOUNTS, _NEW_PROCESSES = 0x00020000, 0x20000000
_PLAIN, _BIND, _RECURSIVE, _PRIVATE = (
    2 | 4 | 8,
    0x1000,
    0x4000,
    0x40000,
)  # the first: no set-user-ID, devices, execution


@dataclass(frozen=True)
class Namespaces:
    """Names of the namespaces of mounts and of processes that this process is in."""

    mounts: str
    processes: str

    @classmethod
    def of_this(cls) -> Namespaces:
        """Return those that it is in now; "" where there is no /proc."""
        found = []
        for name in ("mnt", "pid"):
            try:
                found.append(str(Path("/proc/self/ns", name).readlink()))
            except OSError:
                found.append("")
        return cls(*found)


def enter() -> None:
    """Enter namespaces of its own, all that can be; raises OSError if this process shares one of them with others.

    It forks on the way: what returns is the child, the first process of its namespace.
    """
    apart = _NEW_USER | _NEW_NET | _NEW_IPC | _NEW_UTS

    def alone() -> None:
        _enter(apart | _NEW_MOUNTS | _NEW_PROCESSES)
        _become_first_process()
        _make_mounts_private()
        _mount_own_proc()

    def with_mounts() -> None:
        _enter(apart | _NEW_MOUNTS)
        _make_mounts_private()

    # It cannot be undone, so a child tries it: where parts of /proc are covered, as in some containers, the kernel lets
    # no other be mounted, and CUDA does not start in a namespace of processes without one.
    if _works_in_a_child(alone):
        alone()
        return
    if _works_in_a_child(with_mounts):
        with_mounts()
    else:
        _enter(apart)
    raise OSError(0, "it sees the other processes: no /proc can be mounted here")


def make_read_only(scratch: Path, outside: Namespaces) -> list[Path]:
    """Make all mounts read-only but some, and return the folders whose files may be written: `scratch` is one.

    Another is a small /dev/shm of its own, without the files of others. Of /proc it is what is of processes. Landlock knows
    nothing of modes, owners and times of files, which would be the user's to change. Raises OSError if it cannot be done.
    """
    if Namespaces.of_this().mounts == outside.mounts:
        raise OSError(0, "it shares its mounts with others: modes and times of the user's files can be changed")
    own = os.fspath(scratch)
    _mount(own, own, _BIND)
    for part in (Path("/proc", name) for name in _OF_THE_MACHINE):
        if part.exists():
            _mount(os.fspath(part), os.fspath(part), _BIND | _RECURSIVE)
    _set_read_only("/", yes=True, recursive=True)
    _set_read_only(own, yes=False)
    with suppress(OSError):  # where it was read-only before, it stays so
        _set_read_only("/proc", yes=False)
    with suppress(OSError):
        _mount("tmpfs", os.fspath(_SHARED_MEMORY), _PLAIN, kind="tmpfs", options=f"size={_SHARED_MIB}m,mode=1777")
        return [scratch, _SHARED_MEMORY]
    return [scratch]


def _enter(namespaces: int) -> None:
    user, ids = os.getuid(), os.getgid()
    call("unshare", ctypes.c_long(namespaces))
    for name, content in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{ids} {ids} 1")):
        Path("/proc/self", name).write_text(content)
    # Counted in this namespace alone.
    bound(resource.RLIMIT_NPROC, _MOST_PROCESSES)


def _become_first_process() -> None:
    """Go on in a child, the first process of a new namespace; when it ends, all that it has started ends."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        _end_as(status)
    prctl(DEATH_SIGNAL, signal.SIGKILL)


def _mount_own_proc() -> None:
    """Mount a /proc of this namespace: CUDA looks for its threads there by the numbers that they have in it."""
    _mount("proc", "/proc", _PLAIN, kind="proc")


def _make_mounts_private() -> None:
    _mount("none", "/", _PRIVATE | _RECURSIVE)


def _mount(source: str, target: str, flags: int, *, kind: str | None = None, options: str | None = None) -> None:
    def text(value: str | None) -> ctypes.c_char_p:
        return ctypes.c_char_p(None if value is None else os.fsencode(value))

    call("mount", text(source), text(target), text(kind), ctypes.c_ulong(flags), text(options))


def _set_read_only(path: str, *, yes: bool, recursive: bool = False) -> None:
    here, all_below, read_only = -100, 0x8000, 1
    attributes = struct.pack("QQQQ", read_only if yes else 0, 0 if yes else read_only, 0, 0)
    where = ctypes.c_int(here), ctypes.c_char_p(os.fsencode(path)), ctypes.c_uint(all_below if recursive else 0)
    call("mount_setattr", *where, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)))


def _works_in_a_child(work: Callable[[], None]) -> bool:
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _end_as(status: int) -> None:
    """End as a child did, so that who waits for this process learns it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
