"""Landlock around a process (see `man 7 landlock`): what it may write to and whom it may reach, without any privilege."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from opsmith.judging.inside.system_calls import call

__all__ = ["bounds_signals", "bounds_truncate", "restrict"]

_VERSION = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
# Rights of files, by the version of the interface that brought them, and since which version there is more.
_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
_TRUNCATES, _CONNECTS, _SCOPES = 3, 4, 6
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "kfd", "dri")


def restrict(folders: Iterable[Path], device: str, proc: Path | None) -> None:
    """Let this process read everything, and write to some folders and to devices alone.

    `proc` is what it may write to of /proc. There are no connections by TCP, and no signals to processes that are not bound
    likewise, where Linux has that. Raises OSError where it has no Landlock.
    """
    version = _version()
    rights = max(count for since, count in _RIGHTS.items() if since <= version)
    everything = (1 << rights) - 1
    # Rights of files; bind and connect; abstract sockets and signals.
    wanted = struct.pack("QQQ", everything, 3 if version >= _CONNECTS else 0, 3 if version >= _SCOPES else 0)
    wanted = wanted[: 24 if version >= _SCOPES else 16 if version >= _CONNECTS else 8]
    ruleset = call("landlock_create_ruleset", ctypes.c_char_p(wanted), ctypes.c_size_t(len(wanted)), ctypes.c_uint32(0))
    _allow(ruleset, Path("/"), _EXECUTE | _READ_FILE | _READ_DIR)
    for folder in folders:
        _allow(ruleset, folder, everything)
    on_device = (_WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL) & everything
    devices = [Path("/dev", name) for name in _DEVICES]
    for path in [*devices, *(Path("/dev").glob("nvidia*") if device == "cuda" else ())]:
        if path.exists():
            _allow(ruleset, path, on_device if not path.is_dir() else on_device | _READ_DIR)
    if proc is not None:
        _allow(ruleset, proc.resolve(), (_WRITE_FILE | _READ_FILE | _READ_DIR | _TRUNCATE) & everything)
    call("landlock_restrict_self", ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def bounds_signals() -> bool:
    """Whether it keeps signals in (Linux 6.12)."""
    return _has(_SCOPES)


def bounds_truncate() -> bool:
    """Whether it keeps files' lengths (Linux 6.2)."""
    return _has(_TRUNCATES)


def _has(version: int) -> bool:
    try:
        return _version() >= version
    except OSError:
        return False


def _version() -> int:
    return call("landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))


def _allow(ruleset: int, path: Path, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.c_char_p(struct.pack("=Qi", rights, descriptor))
        call("landlock_add_rule", ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
