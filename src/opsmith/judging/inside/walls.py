"""Raises the walls around a candidate's process, each where the kernel has it: what cannot be raised is said.

They stand while the process has one thread, since most hold for one and those that it starts: before torch is imported, or
right after the fork from a process that has imported it. Everything here needs no privilege: user namespaces, Landlock (fs,
TCP, signals), a seccomp filter (see `sieve`) and resource limits.
"""

from __future__ import annotations

import ctypes
import resource
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from opsmith.judging.inside import landlock, namespaces
from opsmith.judging.inside.namespaces import DEATH_SIGNAL, Namespaces
from opsmith.judging.inside.sieve import sieve
from opsmith.judging.inside.system_calls import become_subreaper, bound, call, prctl

__all__ = ["Fence", "Raised", "raise_walls"]

_NO_NEW_PRIVILEGES, _DROP_CAPABILITY = 38, 24
_MOUNTS = "files that are read-only but for its scratch folder"
_LANDLOCK = "Landlock: writes to its scratch folder alone"
_MOST_FILE_BYTES = 8 << 30


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
    outside = Namespaces.of_this()
    prctl(DEATH_SIGNAL, signal.SIGKILL)
    become_subreaper()  # who has lost a parent ends with it
    with suppress(OSError):  # where memory runs out, the candidate goes first, and not the judge
        Path("/proc/self/oom_score_adj").write_text("1000")
    prctl(_NO_NEW_PRIVILEGES, 1)
    writable: list[Path] = []

    def own_proc() -> Path | None:
        """Where CUDA gives its threads their names; so it does in processes that the candidate starts."""
        if fence.device != "cuda":
            return None
        return Path("/proc" if writable and _is_alone(outside) else "/proc/self")

    limits = "limits of memory and of a file's size" if fence.device == "cpu" else "a limit of a file's size"
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        (limits, lambda: _limit(fence)),
        ("namespaces: no network, no processes but its own and a limit of these", namespaces.enter),
        (_MOUNTS, lambda: writable.extend(namespaces.make_read_only(fence.scratch, outside))),
        (_LANDLOCK, lambda: landlock.restrict(writable or [fence.scratch], fence.device, own_proc())),
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


def _limit(fence: Fence) -> None:
    bound(resource.RLIMIT_CORE, 0)
    bound(resource.RLIMIT_FSIZE, _MOST_FILE_BYTES)
    if fence.device == "cpu":
        # The driver of a GPU reserves far more than it uses.
        bound(resource.RLIMIT_DATA, fence.memory_bytes)


def _is_alone(outside: Namespaces) -> bool:
    return Namespaces.of_this().processes != outside.processes


def _check_signals(outside: Namespaces, has_landlock: bool) -> None:
    """Raise OSError unless a namespace of processes or Landlock keeps signals in."""
    if not _is_alone(outside) and not (has_landlock and landlock.bounds_signals()):
        raise OSError(0, "it sees the other processes, and has no Landlock of Linux 6.12 or newer")


def _drop_capabilities() -> None:
    for number in range(64):
        try:
            prctl(_DROP_CAPABILITY, number)
        except OSError:
            break  # there are no more, or there is nothing to drop
    head, data = struct.pack("Ii", 0x20080522, 0), bytes(24)
    call("capset", ctypes.c_char_p(head), ctypes.c_char_p(data))


def _sieve(outside: Namespaces) -> None:
    sieve(is_alone=_is_alone(outside), refuses_truncate=not landlock.bounds_truncate())
