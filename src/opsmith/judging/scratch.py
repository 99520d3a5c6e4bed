"""Measures, compares and removes what a candidate has in its folder, whatever it has made there.

Nothing here follows a path of the candidate's: folders may be nested deeper than a path can be long, or than Python can
recurse, be closed to everybody, or hold more files than a disk has room for.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Written", "differs", "nameless_bytes", "remove_folder", "written_to"]

# Compilers and their caches nest folders a few levels deep, and write some thousand files.
_MOST_DEPTH, _MOST_FILES = 100, 20_000
_BLOCK = 512


@dataclass(frozen=True)
class Written:
    """What lies in a folder: bytes of files, and why that cannot be counted to the end."""

    nbytes: int
    uncounted: str = ""


def written_to(folder: Path) -> Written:
    """Return what lies in a folder, at any depth that is counted."""
    total, files = 0, 0
    pending = [(str(folder), 0)]
    while pending:
        path, depth = pending.pop()
        if depth > _MOST_DEPTH:
            return Written(total, f"folders more than {_MOST_DEPTH} deep")
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                files += 1
                if files > _MOST_FILES:
                    return Written(total, f"more than {_MOST_FILES} files")
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((entry.path, depth + 1))
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    return Written(total)


def differs(path: Path, content: bytes) -> bool:
    """Whether a file has another content; what is not a file of that size is not read, as it may have no end."""
    try:
        found = path.lstat()
        return not stat.S_ISREG(found.st_mode) or found.st_size != len(content) or path.read_bytes() != content
    except OSError:
        return True


def nameless_bytes(pids: Iterable[int], known: Iterable[tuple[int, int]] = (), *, are_sizes_taken: bool = True) -> int:
    """Return the bytes of files that processes have open or mapped and that have no name: deleted ones, those in memory.

    Those that are `known`, by device and number, do not count. What a file takes that is mapped and not open Linux tells
    those alone who may follow links in `map_files`. For others it is as large as it is mapped, where `are_sizes_taken`.
    """
    seen, total = set(known), 0
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError):
            for opened in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    found = opened.stat()
                    place = (found.st_dev, found.st_ino)
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0 and place not in seen:
                        seen.add(place)
                        total += found.st_blocks * _BLOCK
    for pid in pids:
        for span, end, place in _nameless_mappings(pid):
            if place in seen:
                continue
            try:
                total += Path(f"/proc/{pid}/map_files/{span}").stat().st_blocks * _BLOCK
                seen.add(place)
            except OSError:
                sizes[place] = max(sizes.get(place, 0), end)
    return total + (sum(size for place, size in sizes.items() if place not in seen) if are_sizes_taken else 0)


def _nameless_mappings(pid: int) -> Iterator[tuple[str, int, tuple[int, int]]]:
    """Yield where a process has mapped files without a name, at which byte of the file that ends, and which these are.

    Pages that it gives up (MADV_DONTNEED) are no part of its memory any more, and stay in such a file.
    """
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
            if line.endswith(b" (deleted)"):
                span, _, offset, device, number, _ = line.split(maxsplit=5)
                begin, end = (int(one, 16) for one in span.split(b"-"))
                major, minor = (int(one, 16) for one in device.split(b":"))
                yield span.decode(), int(offset, 16) + end - begin, (os.makedev(major, minor), int(number))


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it; nobody may write to it any more. What cannot be removed stays.

    Folders in it are brought to its top first and emptied there, so that no path is long.
    """
    pending = [str(folder)]
    emptied = []
    while pending:
        path = pending.pop()
        with suppress(OSError):
            os.chmod(path, stat.S_IRWXU)  # noqa: PTH101 -- as below: many files
            with os.scandir(path) as entries:
                inside = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for one, is_folder in inside:
                with suppress(OSError):
                    if is_folder:
                        os.chmod(one, stat.S_IRWXU)  # noqa: PTH101
                        at_top = os.path.join(folder, f"removed-{secrets.token_hex(8)}")  # noqa: PTH118
                        os.rename(one, at_top)  # noqa: PTH104
                        pending.append(at_top)
                    else:
                        os.unlink(one)  # noqa: PTH108
        emptied.append(path)
    for path in reversed(emptied):
        with suppress(OSError):
            os.rmdir(path)  # noqa: PTH106
