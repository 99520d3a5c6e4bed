"""Calls Linux without a library, by the names of its calls."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from collections.abc import Mapping

__all__ = ["become_subreaper", "bound", "call", "machine_in_filters", "number_of", "prctl"]

_libc = ctypes.CDLL(None, use_errno=True)

# What is newer has the same number on all machines.
_ON_ALL = {
    "clone3": 435, "fsopen": 430, "io_uring_setup": 425, "landlock_add_rule": 445, "landlock_create_ruleset": 444,
    "landlock_restrict_self": 446, "mount_setattr": 442, "move_mount": 429, "open_tree": 428, "pidfd_getfd": 438,
    "process_madvise": 440,
}  # fmt: skip
_X86_64 = {
    "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "capset": 126, "chroot": 161, "clock_adjtime": 305,
    "clock_settime": 227, "clone": 56, "connect": 42, "delete_module": 176, "finit_module": 313, "init_module": 175,
    "ioprio_set": 251, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250, "mount": 165,
    "open_by_handle_at": 304, "perf_event_open": 298, "pivot_root": 155, "prlimit64": 302, "process_vm_readv": 310,
    "process_vm_writev": 311, "ptrace": 101, "quotactl": 179, "reboot": 169, "request_key": 249, "sched_setaffinity": 203,
    "sched_setattr": 314, "sched_setparam": 142, "sched_setscheduler": 144, "sendto": 44, "setns": 308,
    "setpriority": 141, "settimeofday": 164, "shmget": 29, "socket": 41, "socketpair": 53, "swapoff": 168, "swapon": 167,
    "tgkill": 234, "truncate": 76, "umount2": 166, "unshare": 272, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "acct": 89, "add_key": 217, "adjtimex": 171, "bpf": 280, "capset": 91, "chroot": 51, "clock_adjtime": 266,
    "clock_settime": 112, "clone": 220, "connect": 203, "delete_module": 106, "finit_module": 273, "init_module": 105,
    "ioprio_set": 30, "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104, "keyctl": 219, "mount": 40,
    "open_by_handle_at": 265, "perf_event_open": 241, "pivot_root": 41, "prlimit64": 261, "process_vm_readv": 270,
    "process_vm_writev": 271, "ptrace": 117, "quotactl": 60, "reboot": 142, "request_key": 218, "sched_setaffinity": 122,
    "sched_setattr": 274, "sched_setparam": 118, "sched_setscheduler": 119, "sendto": 206, "setns": 268,
    "setpriority": 140, "settimeofday": 170, "shmget": 194, "socket": 198, "socketpair": 199, "swapoff": 225, "swapon": 224,
    "tgkill": 131, "truncate": 45, "umount2": 39, "unshare": 97, "userfaultfd": 282,
}  # fmt: skip
# With the machine's name in a filter of calls (AUDIT_ARCH_...).
_MACHINES: Mapping[str, tuple[Mapping[str, int], int]] = {
    "x86_64": ({**_X86_64, **_ON_ALL}, 0xC000003E),
    "aarch64": ({**_AARCH64, **_ON_ALL}, 0xC00000B7),
}
_CHILD_SUBREAPER = 36


def bound(which: int, most: int) -> None:
    """Limit a resource of this process for good; a lower limit that it has stays."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def number_of(name: str) -> int:
    """Return the number of a call; raises OSError on a machine whose numbers are not known."""
    return _machine()[0][name]


def machine_in_filters() -> int:
    """Return what a filter of calls knows this machine by; raises OSError likewise."""
    return _machine()[1]


def _machine() -> tuple[Mapping[str, int], int]:
    found = _MACHINES.get(platform.machine())
    if found is None:
        raise OSError(0, "the numbers of this machine's calls are not known")
    return found


def call(name: str, *arguments: object) -> int:
    """Make a system call; raises OSError."""
    found = int(_libc.syscall(number_of(name), *arguments))
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


def become_subreaper() -> None:
    """Have descendants that lose their parent become children of this process."""
    prctl(_CHILD_SUBREAPER, 1)
