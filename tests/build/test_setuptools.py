"""`pip install` of a project with operators."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import setuptools
from setuptools.errors import SetupError

from opsmith.build.setuptools import BuildOperators, OperatorExtension
from opsmith.package import hook

_USE = """
import torch, user_scale
print(*user_scale.scale(torch.ones(2), 3.0).tolist(), sep=",", end=" ")
print(user_scale.__file__, *torch.ops.loaded_libraries)
"""


@pytest.mark.slow("installs with pip into an environment of its own")
@pytest.mark.compile
def test_wheel_serves_any_python_and_runs_without_a_compiler(project: Path, user_python: Any, tmp_path: Path) -> None:
    user_python.pip(
        "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", tmp_path / "wheels", project, cwd=tmp_path
    )
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert wheel.name.startswith("user_scale-1.2.3-py3-none-manylinux_2_")
    names = set(zipfile.ZipFile(wheel).namelist())
    kernels = {f"user_scale/kernels/scale.{suffix}" for suffix in ("cpp", "cu", "h")}
    assert kernels | {"user_scale/_ops.so", "user_scale/_ops.json", "user_scale/__init__.py"} <= names

    user_python.pip("install", "-q", "--no-deps", wheel, cwd=tmp_path)
    assert "user-scale" in user_python.pip("list", cwd=tmp_path).replace("_", "-")
    values, place, library = user_python.run("-c", _USE, cwd=tmp_path, has_compilers=False).stdout.split()
    assert values == "3.0,3.0"
    assert Path(library) == Path(place).with_name("_ops.so")
    assert Path(place).is_relative_to(tmp_path / "venv")


@pytest.mark.slow("installs with pip into an environment of its own")
@pytest.mark.compile
def test_editable_installation_has_its_library_in_the_sources(project: Path, user_python: Any, tmp_path: Path) -> None:
    user_python.pip("install", "-q", "--no-build-isolation", "--no-deps", "-e", project, cwd=tmp_path)
    out = user_python.run("-c", _USE, cwd=tmp_path, has_compilers=False).stdout
    assert out.startswith("3.0,3.0 ")
    assert str(project / "user_scale" / "_ops.so") in out
    # An edited kernel: the library in the sources no longer fits, and says so.
    header = project / "user_scale" / "kernels" / "scale.h"
    header.write_text(header.read_text().replace("x * C(factor)", "x * C(factor) + C(1)"))
    done = user_python.run("-c", _USE, cwd=tmp_path)
    assert done.stdout.startswith("4.0,4.0 ")
    assert "kernels/scale.h has changed since it was built" in done.stderr


@pytest.mark.slow("pip builds a project")
@pytest.mark.compile
def test_broken_kernel_ends_pip_with_the_users_line_and_no_traceback(
    project: Path, user_python: Any, tmp_path: Path
) -> None:
    kernel = project / "user_scale" / "kernels" / "scale.cpp"
    kernel.write_text(kernel.read_text().replace("scaled(", "scald("))
    said = user_python.pip("install", "--no-build-isolation", "--no-deps", project, cwd=tmp_path, fails=True)
    assert f"{kernel}:7:" in said
    assert "scald" in said
    assert "Traceback" not in said


def test_environment_without_torch_is_told_what_to_do(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(hook, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"pip install --no-build-isolation \."):
        hook.finalize_distribution_options(setuptools.Distribution())


def test_wrong_table_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    (project / "pyproject.toml").write_text("[tool.opsmith]\noperator = ['user_scale']\n")
    with pytest.raises(SetupError, match=r"\[tool\.opsmith\]: unknown key operator"):
        hook.finalize_distribution_options(setuptools.Distribution())


def test_project_without_the_table_is_left_alone_and_waits_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    code = """
import sys, setuptools
from opsmith.package import hook
distribution = setuptools.Distribution()
hook.finalize_distribution_options(distribution)
print(distribution.ext_modules, "torch" in sys.modules, "opsmith.build.setuptools" in sys.modules)
"""
    source = Path(hook.__file__).parents[2]
    argv, env = [sys.executable, "-c", code], {"PYTHONPATH": str(source)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["None", "False", "False"], done.stderr


@pytest.mark.parametrize(
    ("given", "jobs"), [("1", 1), ("2", 2), (1, 1), ("0", None), (0, None), (None, None), (True, None)]
)
def test_as_many_compilers_run_as_the_command_line_says(given: Any, jobs: int | None) -> None:
    command = BuildOperators(setuptools.Distribution())
    command.parallel = given
    command.ensure_finalized()
    assert command._most_jobs() == jobs


def test_project_with_the_table_gets_an_extension(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    distribution = setuptools.Distribution()
    distribution.ext_modules = None
    hook.finalize_distribution_options(distribution)
    assert [type(extension) for extension in distribution.ext_modules] == [OperatorExtension]
