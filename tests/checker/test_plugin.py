"""`pytest --opsmith`: tests of operators without a test file, and no trace of it where it is not asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

import pytest

import opsmith

KIT = Path(__file__).parent / "kit_screen"
QUICK = ("--opsmith-dtype", "float32", "-k", "value or sizes or empty")


class Python(Protocol):
    """A user's Python (see the fixture `user_python`)."""

    def run(self, *arguments: str | Path, cwd: Path, fails: bool = False): ...


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a user's project, with operators, a test, and warnings as errors."""
    folder = tmp_path / "project"
    shutil.copytree(KIT, folder / "kit_screen", ignore=shutil.ignore_patterns("__pycache__"))
    # pytest-benchmark, where it is installed, warns under pytest-xdist.
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\naddopts = -p no:benchmark\n")
    (folder / "test_own.py").write_text(OWN)
    return folder


OWN = """
import sys

def test_nothing_is_imported():
    assert "opsmith.pytest_plugin" in sys.modules
    assert not [name for name in sys.modules if name == "torch" or name.startswith("opsmith.checker")]
"""


@pytest.mark.compile
@pytest.mark.nightly("a whole check in a process of its own")
def test_each_property_is_a_test(user_python: Python, project: Path):
    pytest_ = ("-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider")
    # `hanging` takes as long as a check's patience lasts, and has tests of its own.
    chosen = (*QUICK[:-1], f"({QUICK[-1]}) and not hanging and not running_sum")
    printed = user_python.run(*pytest_, "--opsmith", "kit_screen", *chosen, cwd=project, fails=True).stdout
    for line in (
        "PASSED kit_screen/operators.py::right::value[cpu]",
        "PASSED kit_screen/operators.py::right::special values[cpu]",
        "FAILED kit_screen/operators.py::wrong::value[cpu]",
        "FAILED kit_screen/operators.py::crashing::sizes[cpu]",
        "PASSED kit_screen/operators.py::crashing::empty[cpu]",
    ):
        assert line in printed
    assert "✗ value, cpu, float32: y[0, 0] is " in printed
    assert "it crashes: a segmentation fault" in printed
    assert "from kit_screen.operators import wrong" in printed
    # No traceback of opsmith's, and nothing of the user's other tests.
    assert "pytest_plugin.py" not in printed
    assert "test_own" not in printed


@pytest.mark.compile
@pytest.mark.nightly("pytest with workers of its own")
def test_beside_other_tests_and_by_several_processes(user_python: Python, project: Path):
    argv = ("-m", "pytest", "-q", "-n", "2", "--opsmith", "kit_screen::right", *QUICK[:2], "-k", "value or own")
    (project / "test_own.py").write_text("def test_own():\n    pass\n")
    printed = user_python.run(*argv, "test_own.py", cwd=project).stdout
    assert "3 passed" in printed  # value, special values, and the user's


@pytest.mark.slow("a check in a process of its own")
@pytest.mark.compile
def test_what_cannot_be_judged_is_skipped_with_the_reason(user_python: Python, project: Path):
    argv = ("-m", "pytest", "-q", "-rs", "--opsmith", "kit_screen::wrong", "-k", "arguments and not bad")
    printed = user_python.run(*argv, cwd=project).stdout
    assert "1 skipped" in printed
    assert "kit_screen/operators.py:" in printed
    assert "no input of this kind" in printed


def test_a_run_without_it_imports_nothing(user_python: Python, project: Path):
    printed = user_python.run("-m", "pytest", "-q", cwd=project).stdout
    assert "1 passed" in printed


@pytest.mark.slow("runs pytest in a process of its own")
@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("no_such_module",), "--opsmith no_such_module: no module or folder no_such_module"),
        (("kit_screen", "--opsmith-dtype", "floot"), "--opsmith: unknown element type 'floot'; operators have"),
    ],
)
def test_a_wrong_command_line_is_told_once(user_python: Python, project: Path, argv: tuple[str, ...], told: str):
    done = user_python.run("-m", "pytest", "--opsmith", *argv, cwd=project, fails=True)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert told in done.stderr


@pytest.mark.slow("a check in a process of its own")
def test_the_fixture(user_python: Python, project: Path):
    (project / "test_own.py").write_text(FIXTURE)
    done = user_python.run("-m", "pytest", "-q", "-rA", "test_own.py", cwd=project, fails=True)
    assert "PASSED test_own.py::test_right" in done.stdout
    assert "FAILED test_own.py::test_wrong" in done.stdout
    assert "✗ value, cpu, float64:" in done.stdout


FIXTURE = """
import torch

def test_right(opsmith_check):
    report = opsmith_check(torch.sin, reference=lambda x: x.sin(), examples=[(torch.ones(3),)], properties=["value"])
    assert report.ok

def test_wrong(opsmith_check):
    opsmith_check(torch.sin, reference=lambda x: x.cos(), examples=[(torch.ones(3),)], properties=["value"])
"""


def test_the_entry_point_is_declared():
    project = Path(opsmith.__file__).parents[2] / "pyproject.toml"
    declared = '[project.entry-points.pytest11]\nopsmith = "opsmith.pytest_plugin"\n'
    assert declared in project.read_text(encoding="utf-8")
