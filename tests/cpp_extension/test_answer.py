"""A second process loads what the first has built: without a plan, a program, or a compiler on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forks import python_c

pytestmark = pytest.mark.compile

CHILD = """
import ctypes, json, os, subprocess, sys
import torch
started = []
sys.addaudithook(lambda event, arguments: started.append(event) if event in
                 ("subprocess.Popen", "os.posix_spawn", "os.system", "os.fork", "os.exec") else None)
from opsmith.cpp_extension import load
path = load("answer", ["value.cpp"], extra_include_paths=["include"], is_python_module=False, **json.loads(sys.argv[1]))
print(json.dumps({"value": ctypes.CDLL(path).value(), "planned": "opsmith.build.plan" in sys.modules,
                  "started": started, "setuptools": "setuptools" in sys.modules}))
"""


class Project:
    """A source with a header, and a store of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self.link_flags = root, list[str]()
        (root / "include").mkdir()
        (root / "include" / "number.h").write_text("#define NUMBER 7\n")
        (root / "value.cpp").write_text('#include <number.h>\nextern "C" int value() { return NUMBER + MORE; }\n')

    def load(self, *flags: str, **environment: str) -> dict[str, Any]:
        """Load it in a new process; return what the process says of itself."""
        store = {"OPSMITH_CACHE_DIR": str(self.root / "store"), "PYTHONPATH": os.pathsep.join(sys.path)}
        link = {"extra_ldflags": self.link_flags} if self.link_flags else {}
        arguments = json.dumps({"extra_cflags": ["-DMORE=1", *flags], **link})
        inherited = {name: value for name, value in os.environ.items() if name != "CXX"}
        env = {**inherited, **store, **environment}
        done = python_c(CHILD, [arguments], cwd=self.root, env=env)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    assert made.load()["planned"]
    return made


def test_a_finished_library_is_loaded_without_plan_program_or_setuptools(project: Project) -> None:
    assert project.load() == {"value": 8, "planned": False, "started": [], "setuptools": False}


@pytest.mark.slow("a dozen processes that load an extension")
def test_what_decides_a_build_is_noticed_and_what_does_not_is_not(project: Project) -> None:
    assert project.load("-DUNUSED")["planned"], "a flag"
    (project.root / "include" / "number.h").write_text("#define NUMBER 8\n")
    assert project.load()["value"] == 9, "a header"
    (project.root / "include" / "number.h").write_text("#define NUMBER 7\n")
    (project.root / "value.cpp").write_text((project.root / "value.cpp").read_text() + "// edited\n")
    assert project.load()["planned"], "a source"
    assert project.load(CXX="g++")["planned"], "another compiler"
    assert project.load(CPLUS_INCLUDE_PATH=str(project.root))["planned"], "where compilers look"
    project.load()
    assert not project.load(MAX_JOBS="3", OPSMITH_QUIET="1", UNRELATED="1")["planned"]


@pytest.mark.slow("processes that import torch")
def test_a_library_is_loaded_where_there_is_no_compiler_and_no_ninja_any_more(project: Project) -> None:
    assert project.load(PATH="/nonexistent") == {"value": 8, "planned": False, "started": [], "setuptools": False}


@pytest.mark.slow("processes that load an extension")
@pytest.mark.parametrize("by_name", [False, True])
def test_a_linked_library_that_was_built_again_is_noticed(project: Project, by_name: bool) -> None:
    def build_library(value: int) -> None:
        (project.root / "v.cpp").write_text(f"int more() {{ return {value}; }}")
        subprocess.run(["c++", "-fPIC", "-c", "v.cpp"], cwd=project.root, check=True)
        subprocess.run(["ar", "rcs", "libv.a", "v.o"], cwd=project.root, check=True)

    build_library(1)
    (project.root / "value.cpp").write_text('int more();\nextern "C" int value() { return more(); }\n')
    project.link_flags = [f"-L{project.root}", "-lv"] if by_name else [str(project.root / "libv.a")]
    assert project.load()["value"] == 1
    assert not project.load()["planned"]
    build_library(2)
    assert project.load()["value"] == 2
    assert not project.load()["planned"]
