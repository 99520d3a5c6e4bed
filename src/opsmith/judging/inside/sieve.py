"""The filter of system calls around a candidate's process (seccomp, see `man 2 seccomp`)."""

from __future__ import annotations

import ctypes
import struct

from opsmith.judging.inside.system_calls import machine_in_filters, number_of, prctl

__all__ = ["sieve"]

# What reaches into other processes or changes the machine; `io_uring` makes calls that no filter sees.
_DENIED = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd", "perf_event_open"),
    *("bpf", "userfaultfd", "io_uring_setup", "unshare", "setns", "mount", "umount2", "pivot_root", "chroot"),
    *("open_tree", "move_mount", "fsopen", "mount_setattr", "open_by_handle_at", "quotactl", "acct", "keyctl"),
    *("add_key", "request_key", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("reboot", "swapon", "swapoff", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime"),
    # Makes memory that no process has open or mapped, where no limit sees it.
    "shmget",
)
# What changes limits and priority of the process whose number is the first argument; 0 is the caller.
_OF_OTHERS = ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr")
# The same for whole groups of processes.
_OF_GROUPS = ("setpriority", "ioprio_set")

_SECCOMP = 22
# Instructions: load a word, mask it, compare it, and give an answer.
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_OF, _GIVE = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_Instruction = tuple[int, int, int, int]
_ERROR = 0x00050000  # with the error's number; 0 is a success that does nothing
_ALLOW: _Instruction = (_GIVE, 0, 0, 0x7FFF0000)
_KILL: _Instruction = (_GIVE, 0, 0, 0x80000000)
_REFUSE: _Instruction = (_GIVE, 0, 0, _ERROR | 1)  # EPERM
_LACK: _Instruction = (_GIVE, 0, 0, _ERROR | 38)  # ENOSYS
_ABSENT: _Instruction = (_GIVE, 0, 0, _ERROR | 2)  # ENOENT
_PRETEND: _Instruction = (_GIVE, 0, 0, _ERROR)
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # where they are
# Calls with another width of pointers have numbers from here on.
_OTHER_WIDTH = 0x40000000
_UNIX, _STREAM, _PACKETS, _KIND = 1, 1, 5, 0xF

# All flags of `clone` that make one (CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET).
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
# Makes the parent's parent the parent of a process: with it one would be no descendant, and so neither counted nor stopped.
_CLONE_PARENT = 0x00008000


def sieve(*, is_alone: bool, refuses_truncate: bool) -> None:
    """Filter this process's calls from here on; raises OSError where that cannot be.

    `is_alone` says that it is in a namespace of processes of its own: numbers of others mean nothing there.
    """
    program = _program(is_alone=is_alone, refuses_truncate=refuses_truncate)
    packed = b"".join(struct.pack("HBBI", *one) for one in program)
    kept = ctypes.create_string_buffer(packed, len(packed))
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(kept))
    prctl(_SECCOMP, 2, ctypes.c_char_p(head))


def _program(*, is_alone: bool, refuses_truncate: bool) -> list[_Instruction]:
    program = [_load(_MACHINE), *_if(_EQUAL, machine_in_filters(), [_load(_NUMBER)], [_KILL])]
    program += _if(_AT_LEAST, _OTHER_WIDTH, [_REFUSE])
    denied = [*_DENIED, *(["truncate"] if refuses_truncate else [])]
    if not is_alone:
        denied += _OF_GROUPS
        for name in _OF_OTHERS:
            program += _on(name, [_argument(0), *_if(_EQUAL, 0, [_ALLOW], [_REFUSE])])
        # The C library names a thread of the caller's by its number, which may be anybody's; where threads run is a hint.
        program += _on("sched_setaffinity", [_argument(0), *_if(_EQUAL, 0, [_ALLOW], [_PRETEND])])
    for name in denied:
        program += _on(name, [_REFUSE])
    # The argument of `clone3` lies in memory, which no filter reads: without it the C library uses `clone`.
    program += _on("clone3", [_LACK])
    program += _on("clone", [_argument(0), *_if(_ANY_OF, _NAMESPACES | _CLONE_PARENT, [_REFUSE], [_ALLOW])])
    # A socket that has a name in a folder is bounded by neither namespaces nor Landlock, and whoever listens there may act
    # for who calls. ENOENT has libraries take a daemon for absent. A socket of datagrams needs no connection, and the
    # address of `sendmsg` lies in memory.
    program += _on("connect", [_ABSENT])
    without_address = _if(_EQUAL, 0, [_argument(4, 1), *_if(_EQUAL, 0, [_ALLOW], [_REFUSE])], [_REFUSE])
    program += _on("sendto", [_argument(4), *without_address])
    connected = _if(_EQUAL, _STREAM, [_ALLOW], _if(_EQUAL, _PACKETS, [_ALLOW], [_REFUSE]))
    of_unix = _if(_EQUAL, _UNIX, [_argument(1), (_AND, 0, 0, _KIND), *connected], [_REFUSE])
    for name in ("socket", "socketpair"):
        program += _on(name, [_argument(0), *of_unix])
    return [*program, _ALLOW]


def _on(name: str, then: list[_Instruction]) -> list[_Instruction]:
    """Return what answers a call; the others' numbers stay loaded."""
    return _if(_EQUAL, number_of(name), then)


def _if(
    comparison: int, value: int, then: list[_Instruction], otherwise: list[_Instruction] | None = None
) -> list[_Instruction]:
    """Compare what was loaded. The part that stands first, `otherwise` if it is given, ends with an answer."""
    if otherwise is None:
        return [(comparison, 0, len(then), value), *then]
    return [(comparison, len(otherwise), 0, value), *otherwise, *then]


def _load(place: int) -> _Instruction:
    return _LOAD, 0, 0, place


def _argument(index: int, half: int = 0) -> _Instruction:
    return _load(_ARGUMENTS + 8 * index + 4 * half)
