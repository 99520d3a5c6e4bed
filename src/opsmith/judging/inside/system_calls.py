"""Calls Linux without a library: the numbers, structures and constants that the walls of a process need."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DENIED", "OF_OTHERS", "Filtered", "call", "filtered_numbers", "is_known_machine", "prctl"]

_libc = ctypes.CDLL(None, use_errno=True)

# What reaches into other processes or changes the machine; `io_uring` makes calls that no filter sees.
_X86_64 = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "process_madvise": 440, "kcmp": 312,
    "pidfd_getfd": 438, "perf_event_open": 298, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425,
    "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "open_by_handle_at": 304, "quotactl": 179, "acct": 163,
    "keyctl": 250, "add_key": 248, "request_key": 249, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175,
    "finit_module": 313, "delete_module": 176, "reboot": 169, "swapon": 167, "swapoff": 168, "settimeofday": 164,
    "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
}  # fmt: skip
_AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "process_madvise": 440, "kcmp": 272,
    "pidfd_getfd": 438, "perf_event_open": 241, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
    "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "open_by_handle_at": 265, "quotactl": 60, "acct": 89,
    "keyctl": 219, "add_key": 217, "request_key": 218, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105,
    "finit_module": 273, "delete_module": 106, "reboot": 142, "swapon": 224, "swapoff": 225, "settimeofday": 170,
    "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266,
}  # fmt: skip

# What changes the limits, processors and priority of the process whose number is the first argument: prlimit64,
# sched_setaffinity, sched_setscheduler, sched_setparam, sched_setattr. 0 is the caller.
_OF_OTHERS = {"x86_64": (302, 203, 144, 142, 314), "aarch64": (261, 122, 119, 118, 274)}


@dataclass(frozen=True)
class Filtered:
    """Calls that are filtered by more than their number, and the machine's name in a filter (AUDIT_ARCH_...)."""

    socket: int
    socketpair: int
    connect: int
    sendto: int
    truncate: int
    setpriority: int
    ioprio_set: int
    clone: int
    clone3: int
    machine: int


_MACHINES: Mapping[str, tuple[Mapping[str, int], Filtered]] = {
    "x86_64": (_X86_64, Filtered(41, 53, 42, 44, 76, 141, 251, 56, 435, 0xC000003E)),
    "aarch64": (_AARCH64, Filtered(198, 199, 203, 206, 45, 140, 30, 220, 435, 0xC00000B7)),
}
_machine = _MACHINES.get(platform.machine())
DENIED: tuple[int, ...] = tuple(sorted(_machine[0].values())) if _machine else ()
OF_OTHERS: tuple[int, ...] = _OF_OTHERS.get(platform.machine(), ())


def is_known_machine() -> bool:
    """Whether the numbers of this machine's calls are known."""
    return _machine is not None


def filtered_numbers() -> Filtered:
    """Return the numbers of this machine, which is a known one."""
    assert _machine is not None
    return _machine[1]


def call(number: int, *arguments: object) -> int:
    """Make a system call; raises OSError."""
    found = int(_libc.syscall(number, *arguments))
    if found < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return found


def prctl(option: int, *arguments: object) -> None:
    """Call prctl; raises OSError."""
    given = [*arguments, *[0] * (4 - len(arguments))]
    if _libc.prctl(option, *(ctypes.c_ulong(one) if isinstance(one, int) else one for one in given)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
