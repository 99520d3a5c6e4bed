"""Raises the walls around a candidate's process, each where the kernel has it: what cannot be raised is said.

They stand while the process has one thread, since most hold for one and those that it starts: before torch is imported, or
right after the fork from a process that has imported it. Everything here needs no privilege: user namespaces, Landlock (fs,
TCP, signals), a seccomp filter (see `sieve`) and resource limits.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from opsmith.judging.inside.sieve import sieve
from opsmith.judging.inside.system_calls import call, prctl

__all__ = ["Fence", "Raised", "raise_walls"]

_NO_NEW_PRIVILEGES, _DEATH_SIGNAL, _DROP_CAPABILITY, _CHILD_SUBREAPER = 38, 1, 24, 36
_LANDLOCK = "Landlock: writes to its scratch folder alone"
_MOST_FILE_BYTES = 8 << 30
_MOST_PROCESSES = 4096


@dataclass(frozen=True)
class Fence:
    """What a process may use: it writes to one folder, has a device, and so much memory of its own."""

    scratch: Path
    device: str
    memory_bytes: int


@dataclass
class Raised:
    """The walls that stand, and those that this machine does not have, each with the reason."""

    in_force: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def raise_walls(fence: Fence) -> Raised:
    """Shut this process in. It forks on the way: what returns is the child, alone in its namespace of processes."""
    raised = Raised()
    outside = _Namespaces.of_this()
    prctl(_DEATH_SIGNAL, signal.SIGKILL)
    # Who has lost a parent becomes a child of this process, and ends with it.
    prctl(_CHILD_SUBREAPER, 1)
    with suppress(OSError):  # where memory runs out, the candidate goes first, and not the judge
        Path("/proc/self/oom_score_adj").write_text("1000")
    prctl(_NO_NEW_PRIVILEGES, 1)
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("limits of memory, files and processes", lambda: _limit(fence)),
        ("namespaces: no network, no processes but its own", _unshare),
        ("files that are read-only but for its scratch folder", lambda: _make_read_only(fence, outside)),
        (_LANDLOCK, lambda: _landlock(fence)),
        ("no signals to others", lambda: _check_signals(outside, _LANDLOCK in raised.in_force)),
        ("no capabilities", _drop_capabilities),
        ("seccomp: no ptrace, no memory of other processes, no connections", lambda: _sieve(outside)),
    )
    for name, step in steps:
        try:
            step()
        except OSError as error:
            raised.missing.append(f"{name} ({error.strerror or error})")
        else:
            raised.in_force.append(name)
    return raised


@dataclass(frozen=True)
class _Namespaces:
    """Names of the namespaces of mounts and of processes that this process is in."""

    mounts: str
    processes: str

    @classmethod
    def of_this(cls) -> _Namespaces:
        """Return those that it is in now; "" where there is no /proc."""
        found = []
        for name in ("mnt", "pid"):
            try:
                found.append(str(Path("/proc/self/ns", name).readlink()))
            except OSError:
                found.append("")
        return cls(*found)


def _limit(fence: Fence) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_FILE_BYTES, _MOST_FILE_BYTES))
    if fence.device == "cpu":
        # The driver of a GPU reserves far more than it uses.
        resource.setrlimit(resource.RLIMIT_DATA, (fence.memory_bytes, fence.memory_bytes))


def _unshare() -> None:
    """Enter namespaces of its own; raises OSError if this process shares one of them with others."""
    new_user, new_net, new_ipc, new_uts = 0x10000000, 0x40000000, 0x08000000, 0x04000000
    new_mounts, new_pid = 0x00020000, 0x20000000
    apart, alone = new_user | new_net | new_ipc | new_uts, new_mounts | new_pid

    def enter_alone() -> None:
        _enter(apart | alone)
        _become_first_process()
        _mount_own_proc()

    # It cannot be undone, so a child tries it: where parts of /proc are covered, as in some containers, the kernel lets
    # no other be mounted, and CUDA does not start in a namespace of processes without one.
    if _works_in_a_child(enter_alone):
        enter_alone()
        return
    _enter(apart)
    raise OSError(0, "it sees the other processes: no /proc can be mounted here")


def _enter(namespaces: int) -> None:
    user, ids = os.getuid(), os.getgid()
    call(_UNSHARE, ctypes.c_long(namespaces))
    for name, content in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{ids} {ids} 1")):
        Path("/proc/self", name).write_text(content)
    # Counted in this namespace alone.
    resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))


def _become_first_process() -> None:
    """Go on in a child, the first process of a new namespace; when it ends, all that it has started ends."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        _end_as(status)
    prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _mount_own_proc() -> None:
    """Mount a /proc of this namespace: CUDA looks for its threads there by the numbers that they have in it."""
    private, no_set_id_dev_exec = 0x40000 | 0x4000, 2 | 4 | 8
    none, root, proc, on_proc = (ctypes.c_char_p(word) for word in (b"none", b"/", b"proc", b"/proc"))
    call(_MOUNT, none, root, None, ctypes.c_ulong(private), None)
    call(_MOUNT, proc, on_proc, proc, ctypes.c_ulong(no_set_id_dev_exec), None)


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


def _make_read_only(fence: Fence, outside: _Namespaces) -> None:
    """Make all mounts read-only but that of the scratch folder and of /proc, which is the process's own.

    Landlock knows nothing of modes, owners and times of files, which would be the user's to change.
    """
    if _Namespaces.of_this().mounts == outside.mounts:
        raise OSError(0, "it shares its mounts with others: modes and times of the user's files can be changed")
    bind, here, recursive, read_only = 0x1000, -100, 0x8000, 1
    scratch = ctypes.c_char_p(os.fsencode(fence.scratch))

    def change(path: ctypes.c_char_p, flags: int, to: int, no_more: int) -> None:
        attributes = struct.pack("QQQQ", to, no_more, 0, 0)
        given = ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes))
        call(_MOUNT_SETATTR, ctypes.c_int(here), path, ctypes.c_uint(flags), *given)

    call(_MOUNT, scratch, scratch, None, ctypes.c_ulong(bind), None)
    change(ctypes.c_char_p(b"/"), recursive, read_only, 0)
    for path in (scratch, ctypes.c_char_p(b"/proc")):
        change(path, 0, 0, read_only)


_UNSHARE, _MOUNT = (272, 165) if os.uname().machine == "x86_64" else (97, 40)
_MOUNT_SETATTR = 442

# Landlock, see `man 7 landlock`. Rights by the version of its interface that brought them.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _VERSION = 444, 445, 446, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_TRUNCATES, _SCOPES = 3, 6  # since these versions
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "tty", "kfd", "dri")


def _landlock_version() -> int:
    return call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))


def _check_signals(outside: _Namespaces, has_landlock: bool) -> None:
    """Raise OSError unless a namespace of processes or Landlock keeps signals in."""
    if _Namespaces.of_this().processes != outside.processes:
        return
    if not has_landlock or _landlock_version() < _SCOPES:
        raise OSError(0, "it sees the other processes, and has no Landlock of Linux 6.12 or newer")


def _landlock(fence: Fence) -> None:
    version = _landlock_version()
    rights = max(count for since, count in _RIGHTS.items() if since <= version)
    everything = (1 << rights) - 1
    # Rights of files; bind and connect; abstract sockets and signals.
    wanted = struct.pack("QQQ", everything, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    wanted = wanted[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = call(_CREATE_RULESET, ctypes.c_char_p(wanted), ctypes.c_size_t(len(wanted)), ctypes.c_uint32(0))
    _allow(ruleset, Path("/"), _EXECUTE | _READ_FILE | _READ_DIR)
    _allow(ruleset, fence.scratch, everything)
    on_device = (_WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL) & everything
    devices = [Path("/dev", name) for name in _DEVICES if name != "shm"]
    for path in [*devices, *(Path("/dev").glob("nvidia*") if fence.device == "cuda" else ())]:
        if path.exists():
            _allow(ruleset, path, on_device if not path.is_dir() else on_device | _READ_DIR)
    if fence.device == "cuda":  # it gives its threads their names in a file of this process
        _allow(ruleset, Path("/proc/self").resolve(), (_WRITE_FILE | _READ_FILE | _READ_DIR | _TRUNCATE) & everything)
    call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, descriptor)
        call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.c_char_p(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


def _drop_capabilities() -> None:
    for number in range(64):
        try:
            prctl(_DROP_CAPABILITY, number)
        except OSError:
            break  # there are no more, or there is nothing to drop
    head, data = struct.pack("Ii", 0x20080522, 0), bytes(24)
    capset = 126 if os.uname().machine == "x86_64" else 91
    call(capset, ctypes.c_char_p(head), ctypes.c_char_p(data))


def _sieve(outside: _Namespaces) -> None:
    try:
        truncates = _landlock_version() < _TRUNCATES
    except OSError:
        truncates = True
    sieve(is_alone=_Namespaces.of_this().processes != outside.processes, refuses_truncate=truncates)
