"""Where does the store lie, and what lies where in it?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opsmith import _env

__all__ = ["Layout", "default_root"]

# Part of every path: raise it when the layout changes. Older and newer opsmiths then share a root without a word.
_LAYOUT_VERSION = "v1"

# Two hex digits of the key make 256 folders, so that none of them grows too long to list.
_SHARD_DIGITS = 2


def default_root() -> Path:
    """Return OPSMITH_CACHE_DIR, or opsmith's folder in the user's cache folder. Nothing is created."""
    if chosen := _env.read("OPSMITH_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("opsmith", appauthor=False)


@dataclass(frozen=True)
class Layout:
    """The paths below a store's root."""

    root: Path

    @property
    def base(self) -> Path:
        """Folder of everything that this version of the layout owns."""
        return self.root / _LAYOUT_VERSION

    @property
    def artifacts(self) -> Path:
        """Folder of the finished artefacts."""
        return self.base / "artifacts"

    @property
    def staging(self) -> Path:
        """Folder of what is being made. Nothing in it is ever read by another process."""
        return self.base / "staging"

    @property
    def probes(self) -> Path:
        """File of what the compilers said about themselves."""
        return self.base / "probes.json"

    def artifact(self, artifact_key: str) -> Path:
        """Folder of one artefact."""
        return self.artifacts / artifact_key[:_SHARD_DIGITS] / artifact_key

    def index(self, source_key: str) -> Path:
        """Folder of the index records of one source key."""
        return self.base / "index" / source_key[:_SHARD_DIGITS] / source_key

    def lock(self, source_key: str) -> Path:
        """Lock file of one source key."""
        return self.base / "locks" / f"{source_key}.lock"
