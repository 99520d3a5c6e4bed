"""What is saved during a build is built again; times in the future are no reason to."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsmith.build.artifact import obtain_artifact
from opsmith.build.plan import Target, plan_extension
from opsmith.build.watcher import Watcher
from opsmith.errors import BuildError
from opsmith.spec.extension import Extension, Source
from opsmith.store import Store, edited_since
from opsmith.toolchain import find_toolchain

pytestmark = pytest.mark.compile

# More than a tick of the file system's clock.
_TICKS_S = 0.03
_HOUR_NS = 3_600_000_000_000
_TEXT = '#include "x.h"\nextern "C" __attribute__((visibility("default"))) int answer() { return NUMBER; }\n'


class Project:
    """A source with a header, and a store of its own."""

    def __init__(self, root: Path) -> None:
        self.store, self.source, self.header = Store(root / "store"), root / "x.cpp", root / "x.h"
        self.source.write_text(_TEXT)
        self.header.write_text("#define NUMBER 1\n")
        self.builds = 0

    def answer(self, on_build: Callable[[], None] = lambda: None) -> int:
        """Return what the library answers; `on_build` is called as each build begins."""

        def begin(plan: object) -> None:
            self.builds += 1
            on_build()

        source = Source("x.cpp", "cxx", "none", path=self.source, users=(self.source,))
        extension = Extension("x", self.source.parent, (source,), ("cpu",), library="x.so")
        toolchain = find_toolchain(cuda=False, rocm=False)
        plan = plan_extension(extension, toolchain, Target())
        library = obtain_artifact(plan, toolchain, Target(), self.store, watcher=Watcher(on_start=begin)).library
        return int(ctypes.CDLL(str(library)).answer())


@pytest.fixture
def project(tmp_path: Path, empty_store: Path) -> Project:
    return Project(tmp_path)


def set_ahead(*files: Path) -> None:
    for file in files:
        later_ns = time.time_ns() + _HOUR_NS
        os.utime(file, ns=(later_ns, later_ns))


def test_files_with_a_time_in_the_future_are_built_once_and_seen_when_they_change(project: Project) -> None:
    set_ahead(project.source, project.header)
    time.sleep(_TICKS_S)
    assert (project.answer(), project.builds) == (1, 1)
    status = project.header.stat()
    project.header.write_text("#define NUMBER 2\n")
    os.utime(project.header, ns=(status.st_atime_ns, status.st_mtime_ns))
    time.sleep(_TICKS_S)
    assert (project.answer(), project.builds) == (2, 2)


def test_files_of_a_server_whose_clock_is_ahead_are_built(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first build tells which headers there are, the second that they stayed as they were."""
    now_ns = time.time_ns
    monkeypatch.setattr("opsmith.store.edits.time.time_ns", lambda: now_ns() - _HOUR_NS)
    assert (project.answer(), project.builds) == (1, 2)


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_header_that_is_saved_during_a_build_is_built_again(
    project: Project, monkeypatch: pytest.MonkeyPatch, is_behind: bool
) -> None:
    if is_behind:
        now_ns = time.time_ns
        monkeypatch.setattr("opsmith.store.edits.time.time_ns", lambda: now_ns() - _HOUR_NS)

    def save() -> None:
        if project.builds < 3:
            project.header.write_text(f"#define NUMBER {project.builds + 1}\n")
            set_ahead(project.header)

    assert (project.answer(save), project.builds) == (3, 3)


def test_a_header_that_is_saved_during_every_build_is_named(project: Project) -> None:
    with pytest.raises(BuildError, match=re.escape("x.h changed during each of 3 builds")):
        project.answer(lambda: project.header.write_text(f"#define NUMBER {project.builds + 1}\n"))


def test_a_header_that_is_saved_after_a_build_is_not_recorded(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_and_save(*arguments: Any) -> tuple[Path, ...]:
        edited = edited_since(*arguments)
        project.header.write_text("#define NUMBER 2\n")
        return edited

    time.sleep(_TICKS_S)
    with monkeypatch.context() as late:
        late.setattr("opsmith.build.artifact.edited_since", ask_and_save)
        assert project.answer() == 1
    time.sleep(_TICKS_S)
    assert project.answer() == 2
