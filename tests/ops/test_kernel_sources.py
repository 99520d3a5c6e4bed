"""The operators' C++ and CUDA sources keep their order: namespaces, suffixes, and which folder includes which."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

OPS = Path(__file__).parents[2] / "src/opsmith/ops"
SOURCES = sorted(file for file in OPS.rglob("*") if file.suffix in {".h", ".cuh", ".cpp", ".cu"})
HEADERS = [file for file in SOURCES if file.suffix in {".h", ".cuh"}]
SHARED = {"_gpu", "_boxes", "_filters", "_cpu"}


def included(file: Path) -> list[Path]:
    return [(file.parent / name).resolve() for name in re.findall(r'^#include "(.+)"', file.read_text(), re.M)]


def name(file: Path) -> str:
    return str(file.relative_to(OPS))


@pytest.mark.parametrize("header", HEADERS, ids=name)
def test_a_header_has_no_using_directive(header):
    assert "using namespace" not in header.read_text()


@pytest.mark.parametrize("source", SOURCES, ids=name)
def test_a_file_includes_its_own_folder_and_shared_ones(source):
    folders = {file.parent.name for file in included(source)}
    allowed = SHARED if source.parent.name in SHARED else {source.parent.name, *SHARED}
    assert folders <= allowed


def test_headers_that_only_kernels_include_are_cuh():
    seen: set[Path] = set()
    pending = [file for file in SOURCES if file.suffix == ".cpp"]
    while pending:
        pending += [file for file in included(pending.pop()) if file not in seen and not seen.add(file)]
    assert {file for file in HEADERS if file.suffix == ".h"} == {file for file in seen if file.is_relative_to(OPS)}


def test_no_two_files_have_a_class_of_one_name_in_one_namespace():
    files = defaultdict(set)
    for source in SOURCES:
        namespaces: list[str] = []
        for line in source.read_text().splitlines():
            if opened := re.match(r"namespace ([\w:]*) ?\{", line):
                namespaces.append(opened[1])
            elif line.startswith("}  // namespace") and namespaces:
                namespaces.pop()
            elif found := re.match(r"(?:struct|class|enum class|enum)\s+(?:alignas\(.*\) )?(\w+) (?:\{|:)", line):
                files["::".join(part for part in (*namespaces, found[1]) if part)].add(name(source))
    assert {key: found for key, found in files.items() if len(found) > 1} == {}
