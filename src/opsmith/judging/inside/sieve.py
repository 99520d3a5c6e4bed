"""The filter of system calls around a candidate's process (seccomp, see `man 2 seccomp`)."""

from __future__ import annotations

import ctypes
import struct

from opsmith.judging.inside.system_calls import DENIED, OF_OTHERS, filtered_numbers, is_known_machine, prctl

__all__ = ["sieve"]

_SECCOMP = 22
# Instructions: load a word, compare, and with a mask; give an answer. A jump counts the instructions to leave out.
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _AND, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_Instruction = tuple[int, int, int, int]
_ALLOW: _Instruction = (_GIVE, 0, 0, 0x7FFF0000)
_REFUSE: _Instruction = (_GIVE, 0, 0, 0x00050000 | 1)  # EPERM
_LACK: _Instruction = (_GIVE, 0, 0, 0x00050000 | 38)  # ENOSYS
_ABSENT: _Instruction = (_GIVE, 0, 0, 0x00050000 | 2)  # ENOENT
_KILL: _Instruction = (_GIVE, 0, 0, 0x80000000)
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # where they are
_UNIX, _STREAM, _PACKETS, _KIND = 1, 1, 5, 0xF

# All flags of `clone` that make one (CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET).
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
# Makes the parent's parent the parent of a process: with it one would be no descendant, and so neither counted nor stopped.
_CLONE_PARENT = 0x00008000


def sieve(*, is_alone: bool, refuses_truncate: bool) -> None:
    """Filter this process's calls from here on; raises OSError where that cannot be.

    `is_alone` says that it is in a namespace of processes of its own: numbers of others mean nothing there.
    """
    if not is_known_machine():
        raise OSError(0, "the numbers of this machine's calls are not known")
    packed = b"".join(struct.pack("HBBI", *one) for one in _program(is_alone, refuses_truncate))
    kept = ctypes.create_string_buffer(packed, len(packed))
    head = struct.pack("HxxxxxxP", len(packed) // 8, ctypes.addressof(kept))
    prctl(_SECCOMP, 2, ctypes.c_char_p(head))


def _program(is_alone: bool, refuses_truncate: bool) -> list[_Instruction]:
    numbers = filtered_numbers()
    program = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, numbers.machine), _KILL, (_LOAD, 0, 0, _NUMBER)]
    # Calls with another width of pointers have numbers from here on.
    program += [(_AT_LEAST, 0, 1, 0x40000000), _REFUSE]
    denied = [*DENIED, *([numbers.truncate] if refuses_truncate else [])]
    if not is_alone:
        denied += [numbers.setpriority, numbers.ioprio_set]
        for number in OF_OTHERS:
            program += _on(number, _argument(0), (_EQUAL, 1, 0, 0), _REFUSE, _ALLOW)
    for number in denied:
        program += _on(number, _REFUSE)
    # The argument of `clone3` lies in memory, which no filter reads: without it the C library uses `clone`.
    program += _on(numbers.clone3, _LACK)
    program += _on(numbers.clone, _argument(0), (_ANY_OF, 0, 1, _NAMESPACES | _CLONE_PARENT), _REFUSE, _ALLOW)
    # Neither namespaces nor Landlock bound whom a socket with a name in a folder reaches, which may do anything for who
    # connects to it: as if nobody were there, for libraries that look whether a daemon is. Sockets of datagrams need no
    # connection, and their messages' addresses may lie in memory.
    program += _on(numbers.connect, _ABSENT)
    program += _on(numbers.sendto, _argument(4), (_EQUAL, 0, 2, 0), _argument(4, 1), (_EQUAL, 1, 0, 0), _REFUSE, _ALLOW)
    for number in (numbers.socket, numbers.socketpair):
        of_unix = _argument(0), (_EQUAL, 0, 4, _UNIX)
        connected = _argument(1), (_AND, 0, 0, _KIND), (_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _PACKETS)
        program += _on(number, *of_unix, *connected, _REFUSE, _ALLOW)
    return [*program, _ALLOW]


def _on(number: int, *then: _Instruction) -> list[_Instruction]:
    """Return what is done for a call of this number; the others' numbers stay loaded."""
    return [(_EQUAL, 0, len(then), number), *then]


def _argument(index: int, half: int = 0) -> _Instruction:
    return _LOAD, 0, 0, _ARGUMENTS + 8 * index + 4 * half
