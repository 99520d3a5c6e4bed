"""Finds the user's files that a library is linked with, which no dependency file names.

What the linker finds by itself (`-lm`) belongs to the system, and what is torch's to its version.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["linked_files"]

# Options of the linker whose value is a file that it reads.
_SCRIPT = re.compile(r"^--?(?:version-script|dynamic-list|script)=")
_MOST_DEPTH = 8
_LINKABLE = re.compile(rf"{_SCRIPT.pattern}|\.(?:a|o|so(?:\.\d+)*)$")


def linked_files(
    link_flags: Iterable[str], torch_root: Path, *, libraries: Iterable[str] = (), library_dirs: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """Return the files that flags for the linker name by an absolute path, in `-Wl,` too, and the libraries below `-L`.

    `libraries` and `library_dirs` are more of what `-l` and `-L` say, and come before those. A file of flags (`@FILE`) is
    one of them, and so is what it names.
    """
    flags = tuple(_joined(_expanded(link_flags)))
    named = [path for flag in flags for path in _named(flag)]
    folders = [*library_dirs, *(Path(flag[2:]) for flag in flags if flag.startswith("-L"))]
    names = [*libraries, *(flag[2:] for flag in flags if flag.startswith("-l"))]
    found = dict.fromkeys([*filter(Path.is_file, named), *_found(names, folders)])
    root = torch_root.resolve()
    return tuple(file for file in found if not file.resolve().is_relative_to(root))


def _expanded(flags: Iterable[str], depth: int = 0) -> Iterator[str]:
    """Yield the flags, and behind a file of flags, which the linker reads, those in it."""
    for flag in flags:
        yield flag
        file = Path(flag[1:])
        if flag.startswith("@") and file.is_absolute() and depth < _MOST_DEPTH:
            with suppress(OSError, ValueError):
                yield from _expanded(shlex.split(file.read_text(encoding="utf-8")), depth + 1)


def _joined(flags: Iterable[str]) -> Iterator[str]:
    """Yield the flags, those of two words as one: `-L DIR` as `-LDIR`."""
    words = iter(flags)
    for word in words:
        yield word + next(words, "") if word in ("-L", "-l") else word


def _named(flag: str) -> Iterator[Path]:
    """Yield the absolute paths of what a flag links: itself, or words of `-Wl,`.

    The linker writes some files that it is told of (`-Wl,-Map,/tmp/x.map`), so these words are known by their endings or
    options. A file that a build writes would seem to be edited by every one.
    """
    if not flag.startswith("-Wl,"):
        words = [flag.removeprefix("@")]
    else:
        words = [word for word in flag.removeprefix("-Wl,").split(",") if _LINKABLE.search(word)]
        words = [_SCRIPT.sub("", word) for word in words]
    yield from (Path(word) for word in words if word.startswith("/"))


def _found(names: Iterable[str], folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the file of each library that is in one of the folders, as the linker looks for it."""
    folders = tuple(folders)
    for name in names:
        files = (name[1:],) if name.startswith(":") else (f"lib{name}.so", f"lib{name}.a")
        candidates = (folder / file for folder in folders for file in files)
        if (file := next(filter(Path.is_file, candidates), None)) is not None:
            yield file
