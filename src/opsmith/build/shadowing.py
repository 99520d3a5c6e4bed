"""Finds where a file would change a build by appearing: ahead of a header that was read, or where `__has_include` looks.

A compiler takes the first header of a name: beside the file that includes it, then in the folders of `-I`, in order. What
it did not find it does not tell, so a dependency file is silent about the places in front.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from opsmith.build.plan import Plan, Step

__all__ = ["find_absent"]

# Flags that name a folder, as one word or two, in front of which a compiler does not look in the system's own.
_FOLDER_FLAGS = ("-I", "-iquote")
_ASKED = re.compile(r"""__has_include(?:_next)?\s*\(\s*["<]([^">\n]+)[">]""")
# Beyond so many places, those beside headers that include others are left out: each costs a look at the disk in a lookup.
_MOST = 4096


def find_absent(plan: Plan, folder: Path, headers: Iterable[Path]) -> tuple[Path, ...]:
    """Return paths, at which nothing is now, for a plan that was built in a folder and read these headers of the user's."""
    own = plan.roots.get("opsmith")
    read = [header for header in headers if own is None or not header.is_relative_to(own)]
    searched = dict.fromkeys(_searched(step, folder, own) for step in plan.steps if step.depfile is not None)
    sources = [source for step in plan.steps if step.depfile is not None for source in step.users]
    beside = list(dict.fromkeys(file.parent for file in (*sources, *read)))
    if len(read) * (len(beside) + max(map(len, searched), default=0)) > _MOST:
        beside = list(dict.fromkeys(source.parent for source in sources))
    asked = {name for file in (*sources, *read) for name in _asked_in(file)}
    resolved = [header.resolve() for header in read]
    found: dict[Path, None] = {}
    for folders in searched:
        roots = [folder.resolve() for folder in folders]
        for header in resolved:
            found.update(dict.fromkeys(_ahead_of(header, beside, folders, roots)))
        for name in asked:
            found.update(dict.fromkeys(_until_there(name, [*beside, *folders])))
    return tuple(path for path in found if not os.path.lexists(path))


def _searched(step: Step, cwd: Path, own: Path | None) -> tuple[Path, ...]:
    """Return the folders that a command names, in order, without opsmith's own and what is behind it."""
    folders = []
    words = iter(step.argv)
    for word in words:
        flag = next((flag for flag in _FOLDER_FLAGS if word.startswith(flag)), None)
        if flag is not None:
            named = word.removeprefix(flag) or next(words, "")
            folders.append(Path(os.path.normpath(cwd / named)))
    return tuple(folder for folder in dict.fromkeys(folders) if folder != own)


def _ahead_of(header: Path, beside: Sequence[Path], folders: Sequence[Path], roots: Sequence[Path]) -> Iterator[Path]:
    """Yield where a header would be found first that was found in one of the folders; `roots` are these without links."""
    for index, root in enumerate(roots):
        if header.is_relative_to(root):
            name = header.relative_to(root)
            yield from (place / name for place in (*beside, *folders[:index]))


def _until_there(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the places of a name up to the first at which it is."""
    for folder in folders:
        path = folder / name
        if path.is_file():
            return
        yield path


def _asked_in(file: Path) -> list[str]:
    try:
        return _ASKED.findall(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []
