"""Gives a build a private folder to work in before it is published, and removes what killed builds left."""

from __future__ import annotations

import os
import platform
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from opsmith.store.keys import digest
from opsmith.store.safety import is_private, make_folder

__all__ = ["make_private", "make_staging", "move_aside", "remove", "reserve_name", "reserve_part", "sweep"]

# Longer than any build. On another host the owner cannot be queried, so only age tells.
_STALE_AFTER_S = 24 * 60 * 60


def make_staging(parent: Path) -> Path:
    """Make a private folder below `parent`, and sweep what dead processes left there. Raises OSError."""
    make_folder(parent)
    sweep(parent)
    folder = reserve_name(parent)
    # No other account may access what a compiler writes with a lax umask; `publish` sets the folder's final mode.
    folder.mkdir(mode=0o700)
    return folder


def make_private(folder: Path, staging: Path) -> None:
    """Make a folder of the store, in place of a file or of one that others can write to. Raises OSError.

    What is in such a folder goes with it: others may have exchanged it, and the next build makes it anew.
    """
    if os.path.lexists(folder) and not (folder.is_dir() and is_private(folder)):
        move_aside(folder, staging)
    make_folder(folder)


def reserve_name(parent: Path) -> Path:
    """Return an unused path below `parent` whose name tells its owner: host, process, and a random part."""
    return parent / f"{_host()}-{os.getpid()}-{os.urandom(8).hex()}"


def reserve_part(file: Path) -> Path:
    """Return an unused hidden path beside a file outside the store, where it is written before it is renamed."""
    return file.with_name(f".{file.name}.{os.urandom(8).hex()}.part")


def remove(path: Path) -> None:
    """Remove a folder or a file. What is gone already, or belongs to another user, is left to its fate."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def move_aside(folder: Path, staging: Path) -> None:
    """Remove a folder of the store in one step, so that no reader meets one that is half removed. Raises OSError."""
    make_folder(staging)
    aside = reserve_name(staging)
    with suppress(FileNotFoundError):
        folder.rename(aside)
        remove(aside)


def sweep(parent: Path) -> None:
    """Remove what is older than a day or belongs to a process of this host that no longer runs."""
    for entry in parent.iterdir():
        if _is_stale(entry):
            remove(entry)


def _is_stale(entry: Path) -> bool:
    host, _, rest = entry.name.partition("-")
    pid = rest.partition("-")[0]
    if host == _host() and pid.isdigit() and not _is_running(int(pid)):
        return True
    try:
        return time.time() - entry.lstat().st_mtime > _STALE_AFTER_S
    except OSError:
        return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@cache
def _host() -> str:
    """Name the place where process numbers mean the same: containers share a host's name, but not its processes."""
    return digest(platform.node(), _read("/proc/sys/kernel/random/boot_id"), _link("/proc/self/ns/pid"))[:12]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
