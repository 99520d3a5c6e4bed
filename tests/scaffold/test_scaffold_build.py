"""A new project works at once: its tests pass, it can be timed, its types hold, and its wheel is sound."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opsmith.package.audit.api import audit
from opsmith.scaffold.project import Project
from opsmith.scaffold.write import write_project


def run(*arguments: str, cwd: Path) -> str:
    """Run a module of this Python in a project, as a user does."""
    env = {"OPSMITH_BRIDGE": "wait", **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.compile
@pytest.mark.nightly("a new project's whole check and benchmark; make test-all makes a wheel of one with CMake")
def test_a_new_project_is_tested_timed_and_packed(tmp_path: Path) -> None:
    project = tmp_path / "made-now"
    write_project(Project("made-now", wheel=True), project)
    assert "3 passed" in run("pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    run("mypy", cwd=project)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    timed = subprocess.run(
        [sys.executable, "bench.py", "6"], cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert "made_now.rms_norm" in timed.stdout, timed.stderr
    run("opsmith", "wheel", cwd=project)
    (wheel,) = (project / "dist").iterdir()
    assert wheel.name.startswith("made_now-0.1.0-py3-none-manylinux_2_")
    judged = audit(wheel)
    assert judged.is_sound
    assert judged.findings == (), judged.findings


@pytest.mark.compile
@pytest.mark.slow("builds a project with CMake")
def test_a_new_project_with_cmake_becomes_a_wheel_too(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    project = tmp_path / "made-by-cmake"
    write_project(Project("made-by-cmake", cmake=True, license="Apache-2.0"), project)
    run("opsmith", "wheel", cwd=project)
    (wheel,) = (project / "dist").iterdir()
    assert wheel.name.startswith("made_by_cmake-0.1.0-py3-none-manylinux_2_")
    judged = audit(wheel)
    assert judged.is_sound
    assert judged.findings == (), judged.findings


@pytest.mark.gpu
@pytest.mark.compile
def test_the_kernel_for_gpus_is_its_definition(tmp_path: Path) -> None:
    project = tmp_path / "made-for-gpus"
    write_project(Project("made-for-gpus", cuda=True), project)
    run("opsmith", "check", "made_for_gpus/", "--device", "cuda", cwd=project)
