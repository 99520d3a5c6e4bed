"""Writes the table of torch's stable C functions: which release has which, from the headers in torch's own wheels.

    python tools/shim_table.py                       # all releases, from the index that pip is configured for
    python tools/shim_table.py --check libtorch_cpu.so   # compares the table with what a libtorch exports

A wheel of torch is 0.5 to 1 GB and its headers are a few MB of that, so only those members are read, by HTTP range
requests. pip does this for metadata (`--use-feature=fast-deps`); its class for it is internal, hence the pinned range of
pip versions below. Run with `pip>=23,<26` in the environment.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any
from zipfile import ZipFile

TABLE = Path(__file__).resolve().parents[1] / "src/opsmith/toolchain/data/shims.json"

# The newest patch of each release with a stable ABI.
RELEASES = ("2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")

# `torch/csrc/stable/c/shim_function_versions.txt`, torch's own list, is not in the wheels.
HEADERS = re.compile(
    r"torch/include/torch/csrc/(?:stable/c/shim|inductor/aoti_torch/c/shim\w*|inductor/aoti_torch/generated/c_shim_\w+)\.h"
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_EXPORT = re.compile(r"\bAOTI_TORCH_EXPORT\s+(?:[\w:<>]+[\s*&]+)+?(\w+)\s*\(")


def main() -> int:
    """Write the table, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="LIBTORCH", type=Path, help="a libtorch_cpu.so to compare the table with")
    parser.add_argument("--release", default="2.13", help="of that libtorch")
    asked = parser.parse_args()
    if asked.check is not None:
        return compare(asked.check, asked.release)
    table = make_table(dict(read_releases()))
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for release, names in table["added"].items():
        print(release, len(names), "added,", len(table["removed"].get(release, ())), "removed")
    return 0


def declared_functions(header: str) -> set[str]:
    """Return the functions that a header of torch's C ABI declares."""
    return set(_EXPORT.findall(_COMMENT.sub(" ", header)))


def make_table(releases: Mapping[str, tuple[str, set[str]]]) -> dict[str, Any]:
    """Return the table from the wheel's name and the functions of each release, oldest first."""
    added: dict[str, list[str]] = {}
    removed: dict[str, list[str]] = {}
    known: set[str] = set()
    for version, (_, names) in releases.items():
        release = ".".join(version.split(".")[:2])
        added[release] = sorted(names - known)
        if gone := sorted(known - names):
            removed[release] = gone
        known = names
    return {
        "about": (
            "Functions of torch's stable C ABI by the release whose headers declare them first. The first release stands "
            "for itself and all before it. A function listed under 'removed' is not declared from that release on. "
            "Written by tools/shim_table.py."
        ),
        "source": {version: wheel for version, (wheel, _) in releases.items()},
        "headers": (
            "torch/csrc/stable/c/shim.h, torch/csrc/inductor/aoti_torch/c/shim*.h, "
            "torch/csrc/inductor/aoti_torch/generated/c_shim_*.h"
        ),
        "not_read": "torch/csrc/stable/c/shim_function_versions.txt is not in the wheels",
        "date": date.today().isoformat(),
        "added": added,
        "removed": removed,
    }


def read_releases() -> Iterator[tuple[str, tuple[str, set[str]]]]:
    """Yield each release with its wheel's name and the functions that its headers declare."""
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands.download import DownloadCommand
    from pip._internal.network.lazy_wheel import LazyZipOverHTTP

    command = DownloadCommand("download", "")
    options, _ = command.parse_args(["--no-deps", "--python-version", "3.11", "--only-binary", ":all:", "torch"])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, target_python=make_target_python(options))
        links = {str(found.version): found.link for found in finder.find_all_candidates("torch")}
        for version in RELEASES:
            link = links[version]
            print(f"reading {link.filename}", file=sys.stderr)
            opened = link.file_path if link.is_file else LazyZipOverHTTP(link.url_without_fragment, session)
            with ZipFile(opened) as wheel:
                texts = [wheel.read(name).decode() for name in wheel.namelist() if HEADERS.fullmatch(name)]
            yield version, (link.filename, set().union(*map(declared_functions, texts)))


def compare(library: Path, release: str) -> int:
    """Print where the table and what a libtorch exports differ, for a release; return 1 if a listed one is missing."""
    from opsmith.package.audit.elf_reader import read_elf

    table = json.loads(TABLE.read_text(encoding="utf-8"))
    listed: set[str] = set()
    for name, functions in table["added"].items():
        listed = (listed - set(table["removed"].get(name, ()))) | set(functions)
        if name == release:
            break
    exported = {symbol.name for symbol in read_elf(library).symbols if symbol.is_defined}
    # A build for the CPU has none of these.
    elsewhere = re.compile(
        r"aoti_torch_(?:cuda|mps|xpu)_|torch_.*cuda|aoti_torch_\w*cuda|aoti_torch_\w*(?:mps|xpu|sycl)"
    )
    missing = sorted(name for name in listed - exported if not elsewhere.search(name))
    more = sorted(name for name in exported - listed if name.startswith(("aoti_torch_", "torch_")))
    print(f"{len(listed & exported)} of {len(listed)} listed functions are exported")
    print("listed, not exported:", *missing, sep="\n  ")
    print("exported, not listed:", *more, sep="\n  ")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
