"""Loads the table of torch's stable C functions: which release has each of them first. tools/shim_table.py writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Release", "ShimTable", "read_release", "release_text", "shim_table"]

# A minor release such as (2, 10), of torch or of Python.
Release = tuple[int, int]


@dataclass(frozen=True)
class ShimTable:
    """Functions of torch's stable C ABI by the release that has them first. Those of `oldest` may be older."""

    since: Mapping[str, Release]
    releases: tuple[Release, ...]

    @property
    def oldest(self) -> Release:
        """The first release in the table."""
        return self.releases[0]

    @property
    def newest(self) -> Release:
        """The last release in the table."""
        return self.releases[-1]


def release_text(release: tuple[int, ...]) -> str:
    """Return a release as people write it: 2.10."""
    return ".".join(map(str, release))


def read_release(text: str) -> Release:
    """Return a release of a table: (2, 10) of 2.10. A version that torch says is read by `release_of`."""
    major, minor = text.split(".")
    return int(major), int(minor)


@cache
def shim_table() -> ShimTable:
    """Return the table, read once."""
    table = json.loads((files(__package__) / "data" / "shims.json").read_text(encoding="utf-8"))
    since = {name: read_release(release) for release, names in table["added"].items() for name in names}
    return ShimTable(since, tuple(sorted(map(read_release, table["added"]))))
