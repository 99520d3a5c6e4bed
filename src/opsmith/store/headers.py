"""Names and compares the headers of a build so that two checkouts can share an artefact.

A header below one of the caller's named roots is recorded as `<root>/path`, and one that a source beside or above a root
leads to as `<root>/../path`; any other by its absolute path. A record made for one checkout therefore looks at the headers
of the checkout that asks, never at those of the one that built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from opsmith.store.keys import digest_file

__all__ = [
    "ABSENT",
    "HeaderDigests",
    "digest_headers",
    "is_portable_name",
    "portable_name",
    "resolve_name",
]

# In place of a digest: the build was one without such a file.
ABSENT = ""

# No compiler gets through a header of this size. A record that comes from elsewhere may name any file, and a sparse one
# can be of any size.
_MAX_HEADER_BYTES = 1 << 30


def digest_headers(paths: Iterable[Path]) -> dict[str, str]:
    """Return each file's path with the digest of its bytes. Raises OSError if one cannot be read."""
    return {str(path): digest_file(path) for path in paths}


def portable_name(path: str, roots: Mapping[str, Path]) -> str:
    """Return `<root>/rest` for a path below one of the roots, the innermost one; any other path as it is."""
    pure = PurePath(path)
    inside = [(name, root) for name, root in roots.items() if pure.is_relative_to(root)]
    if not inside:
        return path
    name, root = max(inside, key=lambda item: len(item[1].parts))
    return f"<{name}>/{pure.relative_to(root).as_posix()}"


def resolve_name(name: str, roots: Mapping[str, Path]) -> Path | None:
    """Return the path that a portable name stands for, or None if its root is not known."""
    root, rest = _split_root(name)
    if not root:
        return Path(name)
    return roots[root] / rest if root in roots else None


def _split_root(name: str) -> tuple[str, str]:
    """Return the root of a portable name and the way from it, or "" and the name where that is a path."""
    root, separator, rest = name[1:].partition(">/") if name.startswith("<") else ("", "", name)
    return (root, rest) if separator else ("", name)


def is_portable_name(name: str) -> bool:
    """Tell whether a name could be a header's: one that comes from elsewhere is only ever looked at, never written.

    From a root a source may go anywhere: `<project>/../common.h`.
    """
    root, _ = _split_root(name)
    return bool(name) and "\0" not in name and (bool(root) or ".." not in PurePath(name).parts)


class HeaderDigests:
    """The digests of headers as they are now, each file read at most once."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = roots
        self._known: dict[str, str | None] = {}

    def is_as_then(self, name: str, digest: str) -> bool:
        """Tell whether the header of a portable name is as it was recorded, or there is still none where there was none."""
        return (self.now(name) or ABSENT) == digest

    def now(self, name: str) -> str | None:
        """Return the digest of the header of this portable name, or None if it cannot be read."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> str | None:
        try:
            path = resolve_name(name, self._roots)
            return None if path is None else digest_file(path, most=_MAX_HEADER_BYTES)
        except (OSError, ValueError):  # ValueError: a damaged record can name what no path can be
            return None
