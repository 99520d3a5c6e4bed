"""Finds the store's folder, and names what is where in it."""

from __future__ import annotations

import os
from pathlib import Path

from opsmith import _env

__all__ = ["Layout", "default_root", "stands_in_for", "wanted_root"]

# Part of every path: raise it when the layout changes. Older and newer versions of opsmith can then share a root.
_LAYOUT_VERSION = "v1"

# Two hex digits of the key make 256 folders, so that none of them grows too long to list.
_SHARD_DIGITS = 2

# Roots that stand in for another that cannot be written, as `default_root` has found.
_stand_ins: dict[Path, Path] = {}


def default_root() -> Path:
    """Return the root of this user's store. Nothing is created.

    Where the wanted root can be read only, or not even be made (a home that is read-only or does not exist), that is a
    private folder beside the system's temporary files. What the wanted root has is still found from there.
    """
    wanted = wanted_root()
    if _can_write(wanted):
        return wanted
    import tempfile

    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    stand_in = Path(tempfile.gettempdir(), f"opsmith-{user}")
    _stand_ins[stand_in] = wanted
    return stand_in


def wanted_root() -> Path:
    """Return OPSMITH_CACHE_DIR, or opsmith's folder in the user's cache folder, whether it can be written or not.

    Raises ArgumentError if OPSMITH_CACHE_DIR begins with a home that is not known.
    """
    if chosen := _env.read_path("OPSMITH_CACHE_DIR"):
        return chosen
    from platformdirs import user_cache_path

    try:
        return user_cache_path("opsmith", appauthor=False)
    except RuntimeError:  # the user has no home; older versions return such a path
        return Path("~/.cache/opsmith")


def stands_in_for(root: Path) -> Path | None:
    """Return the root that this one is used instead of, or None if it is the wanted one."""
    return _stand_ins.get(root)


def _can_write(root: Path) -> bool:
    """Tell whether the store's folder, or the nearest that there is above it, can be written."""
    if not root.is_absolute():  # as of a user without a home
        return False
    folder = root / _LAYOUT_VERSION
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


class Layout:
    """The paths below a store's root."""

    def __init__(self, root: Path) -> None:
        """Return the layout of a root; nothing is looked at."""
        self.root = root

    @property
    def base(self) -> Path:
        """Folder of everything that this version of the layout owns."""
        return self.root / _LAYOUT_VERSION

    @property
    def artifacts(self) -> Path:
        """Folder of the finished artefacts."""
        return self.base / "artifacts"

    @property
    def records(self) -> Path:
        """Folder of the index records of all source keys."""
        return self.base / "index"

    @property
    def locks(self) -> Path:
        """Folder of the lock files."""
        return self.base / "locks"

    @property
    def staging(self) -> Path:
        """Folder of what is being made. Nothing in it is ever read by another process."""
        return self.base / "staging"

    @property
    def texts(self) -> Path:
        """Folder of the sources that were given as text, which the libraries made of them name in __FILE__."""
        return self.base / "texts"

    @property
    def probes(self) -> Path:
        """File of the compilers' descriptions of themselves."""
        return self.base / "probes.json"

    @property
    def usage(self) -> Path:
        """File of how much was published since the store was last measured."""
        return self.base / "usage"

    @property
    def guarded(self) -> tuple[Path, ...]:
        """The folders, outermost first, in which no other account may write."""
        notes = (self.base / "shortcuts", self.base / "bridge")
        return (self.root, self.base, self.artifacts, self.records, self.staging, self.locks, *notes)

    def artifact(self, artifact_key: str) -> Path:
        """Folder of one artefact."""
        return self.artifacts / artifact_key[:_SHARD_DIGITS] / artifact_key

    def index(self, source_key: str) -> Path:
        """Folder of the index records of one source key."""
        return self.records / source_key[:_SHARD_DIGITS] / source_key

    def lock(self, source_key: str) -> Path:
        """Lock file of one source key."""
        return self.locks / f"{source_key}.lock"
