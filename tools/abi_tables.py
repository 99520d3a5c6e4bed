"""Writes the tables of Python's limited API and of the manylinux policies, from the packages that maintain them.

    pip install abi3info auditwheel && python tools/abi_tables.py

abi3info follows CPython's Misc/stable_abi.toml; auditwheel's policies say which versions of glibc's and libstdc++'s
symbols each manylinux tag allows, and which libraries a system with that tag has.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "src/opsmith/package/audit/data"

_FAMILIES = ("GLIBC", "GLIBCXX", "CXXABI", "GCC")


def main() -> None:
    """Write both tables."""
    for name, table in (("limited_api.json", limited_api()), ("manylinux.json", manylinux())):
        (FOLDER / name).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def limited_api() -> dict[str, Any]:
    """Return the symbols of the limited API by the Python that has them first."""
    from abi3info import DATAS, FUNCTIONS

    added: dict[str, list[str]] = {}
    for symbol, entry in [*FUNCTIONS.items(), *DATAS.items()]:
        # A symbol that only a debug or a Windows build has is not one that a Linux extension may need.
        if entry.ifdef is None:
            added.setdefault(f"{entry.added.major}.{entry.added.minor}", []).append(symbol.name)
    by_release = sorted(added.items(), key=lambda item: tuple(map(int, item[0].split("."))))
    return {
        "about": "Symbols of Python's limited API by the release that has them first. Written by tools/abi_tables.py.",
        "source": f"abi3info {version('abi3info')} (CPython's Misc/stable_abi.toml)",
        "added": {release: sorted(names) for release, names in by_release},
    }


def manylinux() -> dict[str, Any]:
    """Return the newest symbol version that each manylinux policy allows, by architecture."""
    policies = json.loads(files("auditwheel.policy").joinpath("manylinux-policy.json").read_text(encoding="utf-8"))
    rows = []
    for policy in policies:
        if not policy["name"].startswith("manylinux_"):
            continue
        newest = {
            machine: {family: _newest(allowed[family]) for family in _FAMILIES if allowed.get(family)}
            for machine, allowed in policy["symbol_versions"].items()
            if machine in {"x86_64", "aarch64"}
        }
        rows.append({"tag": policy["name"], "newest": newest, "libraries": sorted(policy["lib_whitelist"])})
    rows.sort(key=lambda row: int(row["tag"].rpartition("_")[2]))
    return {
        "about": "What each manylinux tag allows a library to need. Written by tools/abi_tables.py.",
        "source": f"auditwheel {version('auditwheel')}, policy/manylinux-policy.json",
        "policies": rows,
    }


def _newest(versions: list[str]) -> str:
    """Return the newest of versions such as 2.28; CXXABI's TM_1 and the like are not numbers."""
    numbers = [tuple(map(int, text.split("."))) for text in versions if text.replace(".", "").isdigit()]
    return ".".join(map(str, max(numbers)))


if __name__ == "__main__":
    main()
