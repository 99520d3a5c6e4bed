"""Programs in C++ link operators, call them without Python, and run what AOTInductor has made of a model with one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from opsmith.build.cmake import CMAKE_DIR
from opsmith.toolchain import find_ninja

pytestmark = pytest.mark.compile

_EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp"
# A program without Python has no PYTHONPATH either.
_ALONE = {"PATH": "/usr/bin:/bin"}


def built(target: str, build: Path, cmake: Callable[..., str]) -> Path:
    prefixes = f"{CMAKE_DIR};{torch.utils.cmake_prefix_path}"
    chosen = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={find_ninja()}", f"-DCMAKE_PREFIX_PATH={prefixes}"]
    cmake("-S", _EXAMPLE, "-B", build, *chosen, f"-DPython_EXECUTABLE={sys.executable}")
    cmake("--build", build, "--target", target)
    return build / target


def said_by(*argv: str | Path) -> str:
    return subprocess.run([*argv], env=_ALONE, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.slow("compiles a program with PyTorch's C++ headers")
def test_a_program_calls_an_operator_by_its_name(cmake: Callable[..., str], tmp_path: Path) -> None:
    program = built("filter_rows", tmp_path / "build", cmake)
    lines = said_by(program).splitlines()
    assert [float(number) for number in lines[0].split()] == [0.0, 0.5, 1.25, 2.125, 3.0625, 1.5312]
    assert lines[-1] == "refused: lowpass(): decay has size 3 in dimension 0, expected B = 2 (from x)"
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "build" / "opsmith" / "libsmooth_ops.so") in needed
    assert "libpython" not in needed


@pytest.mark.nightly("AOTInductor and PyTorch's C++ headers; make test-all has the program that calls the operator")
def test_a_program_runs_a_compiled_model_with_an_operator_inside(
    cmake: Callable[..., str], user_python: Any, tmp_path: Path
) -> None:
    program = built("run_package", tmp_path / "build", cmake)
    done = user_python.run(_EXAMPLE / "package.py", tmp_path / "model.pt2", cwd=tmp_path)
    expected = done.stdout.split("]")[-1]
    shape, _, total = said_by(program, tmp_path / "model.pt2").strip().rpartition(" ")
    assert shape == "[4, 3, 9]"
    assert float(total) == pytest.approx(float(expected), abs=1e-3)
