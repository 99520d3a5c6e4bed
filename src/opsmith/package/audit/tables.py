"""Loads the tables that a file is judged by, beside that of torch's C functions: Python's limited API, manylinux policies.

tools/abi_tables.py writes them from the packages that maintain them. A table is read once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from opsmith.toolchain.shims import Release, read_release

__all__ = ["LimitedApi", "Policy", "limited_api", "policies"]


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


@cache
def limited_api() -> LimitedApi:
    """Return the table of Python's limited API."""
    table = _load("limited_api.json")
    return LimitedApi({name: read_release(release) for release, names in table["added"].items() for name in names})


@cache
def policies(machine: str) -> tuple[Policy, ...]:
    """Return the manylinux policies of an architecture, the oldest first; none for one that the table lacks."""
    rows = _load("manylinux.json")["policies"]
    return tuple(
        Policy(
            read_release(row["tag"].removeprefix("manylinux_").replace("_", ".")),
            {family: _numbers(text) for family, text in row["newest"][machine].items()},
            frozenset(row["libraries"]),
        )
        for row in rows
        if machine in row["newest"]
    )


def _load(name: str) -> Any:
    return json.loads((files("opsmith.package.audit") / "data" / name).read_text(encoding="utf-8"))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
