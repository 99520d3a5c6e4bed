"""A header that appears where a compiler would find it first is seen, and one that appears elsewhere is none of it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from opsmith.build.artifact import obtain_artifact
from opsmith.build.plan import Plan, Target, plan_extension
from opsmith.build.shadowing import find_absent
from opsmith.spec.extension import Extension, Source
from opsmith.store import Store
from opsmith.toolchain import find_toolchain

_TEXT = """#include "number.h"
#if __has_include("more.h")
#include "more.h"
#endif
#ifndef MORE
#define MORE 0
#endif
extern "C" __attribute__((visibility("default"))) int answer() { return NUMBER + MORE; }
"""


class Project:
    """A source, two folders of headers, and a store of its own."""

    def __init__(self, root: Path) -> None:
        self.store, self.source = Store(root / "store"), root / "source" / "x.cpp"
        self.near, self.far = root / "near", root / "far"
        for folder in (self.source.parent, self.near, self.far):
            folder.mkdir()
        self.source.write_text(_TEXT)
        (self.far / "number.h").write_text("#define NUMBER 1\n")

    def plan(self) -> Plan:
        source = Source("x.cpp", "cxx", "none", path=self.source, users=(self.source,))
        folders = (self.near, self.far)
        extension = Extension("x", self.source.parent, (source,), ("cpu",), library="x.so", include_dirs=folders)
        return plan_extension(extension, find_toolchain(cuda=False, rocm=False), Target())

    def answer(self) -> int:
        toolchain = find_toolchain(cuda=False, rocm=False)
        library = obtain_artifact(self.plan(), toolchain, Target(), self.store).library
        return int(ctypes.CDLL(str(library)).answer())

    def is_known(self) -> bool:
        known = list(self.store.artifacts())
        self.answer()
        return len(list(self.store.artifacts())) == len(known)


@pytest.fixture
def project(tmp_path: Path, empty_store: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.compile
def test_a_header_ahead_of_another_takes_its_place(project: Project) -> None:
    assert project.answer() == 1
    assert project.is_known()
    (project.near / "number.h").write_text("#define NUMBER 2\n")
    assert project.answer() == 2
    (project.source.parent / "number.h").write_text("#define NUMBER 3\n")
    assert project.answer() == 3
    (project.near / "number.h").unlink()
    (project.source.parent / "number.h").unlink()
    assert project.is_known()  # as at first
    assert project.answer() == 1


@pytest.mark.compile
def test_a_header_that_was_asked_for_is_seen_when_it_is_there(project: Project) -> None:
    assert project.answer() == 1
    (project.far / "more.h").write_text("#define MORE 10\n")
    assert project.answer() == 11
    (project.near / "more.h").write_text("#define MORE 20\n")
    assert project.answer() == 21


@pytest.mark.compile
def test_what_appears_elsewhere_is_no_reason_to_build(project: Project) -> None:
    assert project.answer() == 1
    (project.far / "other.h").write_text("#define NUMBER 4\n")
    (project.near / "unrelated").mkdir()
    (project.near / "unrelated" / "number.h").write_text("#define NUMBER 5\n")
    assert project.is_known()


def test_places_are_those_in_front(project: Project) -> None:
    found = find_absent(project.plan(), project.source.parent, [project.far / "number.h"])
    wanted = {project.source.parent / "number.h", project.near / "number.h"}
    assert {path for path in found if path.name == "number.h"} == wanted
    asked = {folder / "more.h" for folder in (project.source.parent, project.near, project.far)}
    assert {path for path in found if path.name == "more.h"} == asked
    (project.near / "number.h").write_text("")
    left = find_absent(project.plan(), project.source.parent, [project.far / "number.h"])
    assert project.near / "number.h" not in left  # it was there and not taken: nothing is known of it


def test_very_many_headers_have_places_beside_sources_alone(project: Project) -> None:
    headers = [project.far / f"{number}" / "x.h" for number in range(70)]
    found = find_absent(project.plan(), project.source.parent, headers)
    assert project.source.parent / "69" / "x.h" in found
    assert not any(path.is_relative_to(project.far / "0") for path in found)
