"""A second process finds its artefact without planning; whatever decides a plan, changed, makes it plan again."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from forks import python_c
from some import some

pytestmark = pytest.mark.compile

DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor

@opsmith.op(cpu="twice.cpp", namespace="shortcut")
def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x + x
"""
KERNEL = """
#include <opsmith/kernel.h>
#include "factor.h"
template <class T>
void twice(opsmith::View<const T, 1> x, opsmith::View<T, 1> out) {
  for (int64_t i = 0; i < x.size[0]; ++i) out(i) = T(factor * x(i));
}
"""
CHILD = """
import json, sys, torch
from twice import twice
value = twice(torch.ones(1)).item()
print(json.dumps({"value": value, "planned": "opsmith.build.plan" in sys.modules}))
"""


class Project:
    """A module with one operator, and a store of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, root / "store"
        (root / "twice.py").write_text(DEFINITION)
        (root / "twice.cpp").write_text(KERNEL)
        (root / "factor.h").write_text("constexpr float factor = 2;\n")

    def run(self, **environment: str) -> tuple[float, bool]:
        """Call the operator in a new process; return its value and whether a plan was made."""
        path = os.pathsep.join([str(self.root), *sys.path])
        env = {
            **os.environ,
            "OPSMITH_CACHE_DIR": str(self.store),
            "PYTHONPATH": path,
            "OPSMITH_BRIDGE": "off",
            **environment,
        }
        done = python_c(CHILD, env=env)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        return answer["value"], answer["planned"]

    @property
    def note(self) -> Path:
        (found,) = (self.store / "v1" / "shortcuts").iterdir()
        return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    assert Project(folder).run() == (2.0, True)
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Project:
    """The project in the place where it was built, as it was then."""
    for name, text in (("twice.cpp", KERNEL), ("factor.h", "constexpr float factor = 2;\n")):
        if (built / name).read_text() != text:
            (built / name).write_text(text)
    project = Project.__new__(Project)
    project.root, project.store = built, tmp_path / "store"
    shutil.copytree(built / "store", project.store)
    return project


def test_nothing_changed_nothing_planned(project):
    assert project.run() == (2.0, False)


def test_an_edited_header_is_compiled(project):
    (project.root / "factor.h").write_text("constexpr float factor = 3;\n")
    assert project.run() == (3.0, True)


def test_an_edited_kernel_is_compiled(project):
    (project.root / "twice.cpp").write_text(KERNEL.replace("factor * x(i)", "5 * x(i)"))
    assert project.run() == (5.0, True)


def test_another_compiler_is_noticed(project, tmp_path):
    """A g++ that comes first on PATH now is another toolchain, even where it makes the same binary."""
    folder = tmp_path / "bin"
    folder.mkdir()
    compiler = shutil.which("c++") or shutil.which("g++")
    (folder / "c++").write_text(f'#!/bin/sh\nexec {compiler} "$@"\n')
    (folder / "c++").chmod(0o755)
    assert project.run(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}") == (2.0, True)


def test_a_changed_variable_is_noticed(project):
    assert project.run(OPSMITH_CUDA_ARCHS="9.0") == (2.0, True)
    assert project.run(OPSMITH_JOBS="1", OPSMITH_CUDA_ARCHS="9.0") == (2.0, False)


@pytest.mark.parametrize(
    ("name", "written"),
    some(
        [("OPSMITH_COMPILE_COMMANDS", "compile_commands.json"), ("OPSMITH_TYPINGS", "torch-stubs")],
        1,
        "processes that import torch",
    ),
)
def test_a_folder_for_editors_is_written_and_builds_nothing(project, tmp_path, name, written):
    before = sorted((project.store / "v1" / "artifacts").iterdir())
    assert project.run(**{name: str(tmp_path / "editor")}) == (2.0, True)
    assert (tmp_path / "editor" / written).exists()
    assert sorted((project.store / "v1" / "artifacts").iterdir()) == before
    assert project.run(**{name: str(tmp_path / "editor")}) == (2.0, False)


def test_a_compiler_replaced_in_its_place_is_noticed(project):
    note = json.loads(project.note.read_text())
    path, stamp = next(iter(note["compilers"].items()))
    note["compilers"][path] = [stamp[0] + 1, *stamp[1:]]
    project.note.write_text(json.dumps(note))
    assert project.run() == (2.0, True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": {}}', "null"])
def test_a_damaged_note_is_as_good_as_none(project, text):
    project.note.write_text(text)
    assert project.run() == (2.0, True)


def test_a_removed_artefact_is_built_again(project):
    shutil.rmtree(project.store / "v1" / "artifacts")
    assert project.run() == (2.0, True)
