"""Finds the source lines that use a symbol: from a library's debug information, or in a folder of sources."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from opsmith import _subprocess

__all__ = ["lines_from_debug_info", "lines_in_sources"]

_OBJDUMP_LIMIT_S = 120.0
_MOST_LINES = 3
_SOURCES = frozenset({".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".hh", ".inl", ".hip"})
_MOST_FILES = 5_000
_MOST_FOLDERS = 20_000
_MOST_FILE_BYTES = 4 << 20

# Of `objdump --disassemble --line-numbers`: a place in the sources, and a reference to a symbol.
_PLACE = re.compile(r"^(/?\S[^:\n]*\.(?:c|cc|cpp|cxx|cuh?|h|hpp|hh|inl)):(\d+)(?: \(discriminator \d+\))?$")
_REFERENCE = re.compile(r"<([^>@+]+)(?:@[\w.]+)?(?:\+0x[0-9a-f]+)?>")
_OF_TORCH = re.compile(r"/torch/include/|/c\+\+/\d|/usr/include/")


def lines_from_debug_info(library: Path, symbols: Iterable[str]) -> dict[str, tuple[str, ...]] | str:
    """Return the places that refer to symbols, as "file:line", by the instructions of a library with debug information.

    Where a header of torch was expanded in place, the place of the user's file before it is taken. Return a text that says
    why there are none if objdump is missing or takes too long.
    """
    wanted = set(symbols)
    if shutil.which("objdump") is None:
        return "objdump (of binutils) is not installed"
    answer = _subprocess.ask(
        ["objdump", "--disassemble", "--line-numbers", "--no-show-raw-insn", library], timeout_s=_OBJDUMP_LIMIT_S
    )
    if isinstance(answer, str):
        return answer
    if answer.status != 0:
        return f"objdump failed: {answer.output[:200].strip()}"
    found: dict[str, list[str]] = {}
    own = ""
    for line in answer.output.splitlines():
        if place := _PLACE.match(line):
            if not _OF_TORCH.search(place[1]):
                own = f"{place[1]}:{place[2]}"
        elif "<" in line and own:
            for name in _REFERENCE.findall(line):
                if name in wanted and own not in found.setdefault(name, []):
                    found[name].append(own)
    return {name: tuple(places[:_MOST_LINES]) for name, places in found.items()}


def lines_in_sources(folder: Path, patterns: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the places in a folder's C++ and CUDA files that match each pattern, as "file:line"."""
    compiled = {name: re.compile(pattern) for name, pattern in patterns.items() if pattern}
    found: dict[str, list[str]] = {}
    for file in _source_files(folder):
        text = file.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            code = line.partition("//")[0]
            for name, pattern in compiled.items():
                places = found.setdefault(name, [])
                if len(places) < _MOST_LINES and pattern.search(code):
                    places.append(f"{file.relative_to(folder)}:{number}")
    return {name: tuple(places) for name, places in found.items() if places}


def _source_files(folder: Path) -> Iterator[Path]:
    count = 0
    for number, (root, folders, names) in enumerate(os.walk(folder)):
        if number > _MOST_FOLDERS:
            return
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for name in sorted(names):
            file = Path(root, name)
            if file.suffix in _SOURCES and file.is_file() and file.stat().st_size <= _MOST_FILE_BYTES:
                count += 1
                if count > _MOST_FILES:
                    return
                yield file
