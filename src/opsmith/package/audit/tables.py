"""Loads the tables that a file is judged by: torch's C functions, Python's limited API, and the manylinux policies.

The programs in tools/ write them, from torch's headers and from the packages that maintain the other two. A table is
read once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["LimitedApi", "Policy", "Release", "ShimTable", "limited_api", "policies", "release_text", "shim_table"]

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


@dataclass(frozen=True)
class LimitedApi:
    """Symbols of Python's limited API by the release that has them first."""

    since: Mapping[str, Release]


@dataclass(frozen=True)
class Policy:
    """What a manylinux tag allows: the newest version of each family of symbols, and the libraries of such a system."""

    glibc: Release
    newest: Mapping[str, tuple[int, ...]]
    libraries: frozenset[str]

    @property
    def tag(self) -> str:
        """The tag without the architecture: manylinux_2_28."""
        return f"manylinux_{self.glibc[0]}_{self.glibc[1]}"


def release_text(release: tuple[int, ...]) -> str:
    """Return a release as people write it: 2.10."""
    return ".".join(map(str, release))


@cache
def shim_table() -> ShimTable:
    """Return the table of torch's C functions."""
    table = _load("shims.json")
    since = {name: _release(release) for release, names in table["added"].items() for name in names}
    return ShimTable(since, tuple(sorted(map(_release, table["added"]))))


@cache
def limited_api() -> LimitedApi:
    """Return the table of Python's limited API."""
    table = _load("limited_api.json")
    return LimitedApi({name: _release(release) for release, names in table["added"].items() for name in names})


@cache
def policies(machine: str) -> tuple[Policy, ...]:
    """Return the manylinux policies of an architecture, the oldest first; none for one that the table lacks."""
    rows = _load("manylinux.json")["policies"]
    return tuple(
        Policy(
            _release(row["tag"].removeprefix("manylinux_").replace("_", ".")),
            {family: _numbers(text) for family, text in row["newest"][machine].items()},
            frozenset(row["libraries"]),
        )
        for row in rows
        if machine in row["newest"]
    )


def _load(name: str) -> Any:
    return json.loads((files("opsmith.package.audit") / "data" / name).read_text(encoding="utf-8"))


def _release(text: str) -> Release:
    major, minor = text.split(".")
    return int(major), int(minor)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
