"""The projects in examples/: each does what its README says."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from opsmith.build.cmake import CMAKE_DIR
from opsmith.toolchain import find_ninja

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies an example, so that what it builds is not left in the repository."""

    def copy(name: str) -> Path:
        ignored = shutil.ignore_patterns("__pycache__", "build", "*.so", "*.egg-info", "_ops.json")
        return Path(shutil.copytree(EXAMPLES / name, tmp_path / "work" / name, ignore=ignored))

    return copy


@pytest.fixture
def smooth(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLES / "smooth"))
    yield importlib.import_module("smooth")


@pytest.mark.compile
@pytest.mark.parametrize("steps", [0, 1, 2, 33, 100])
def test_lowpass_is_its_reference(smooth: ModuleType, steps: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 2 * steps, dtype=torch.float64)[:, ::2].requires_grad_()
    decay = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(smooth.lowpass(x, decay), smooth.lowpass.reference(x, decay))
    if steps:
        torch.autograd.gradcheck(smooth.lowpass, (x, decay))
    if 0 < steps < 5:
        torch.autograd.gradgradcheck(smooth.lowpass, (x, decay))


@pytest.mark.compile
def test_lowpass_keeps_its_state_in_full_precision(smooth: ModuleType) -> None:
    x = torch.rand(2, 1000, dtype=torch.float16)
    decay = torch.tensor([0.9, 0.999], dtype=torch.float16)
    expected = smooth.lowpass.reference(x.double(), decay.double())
    torch.testing.assert_close(smooth.lowpass(x, decay).double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.parametrize("steps", [0, 1, 31, 32, 33, 1000])
def test_lowpass_on_a_gpu_is_its_reference(smooth: ModuleType, steps: int) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(5, steps, dtype=torch.float64), torch.rand(5, dtype=torch.float64)]
    on_gpu = [tensor.cuda().requires_grad_() for tensor in inputs]
    on_cpu = [tensor.requires_grad_() for tensor in inputs]
    result, expected = smooth.lowpass(*on_gpu), smooth.lowpass.reference(*on_cpu)
    torch.testing.assert_close(result.cpu(), expected)
    weight = torch.randn_like(expected)
    found = torch.autograd.grad(result, on_gpu, weight.cuda(), allow_unused=True)
    if steps:
        wanted = torch.autograd.grad(expected, on_cpu, weight, allow_unused=True)
        torch.testing.assert_close(
            [grad.cpu() for grad in found], [w if w is not None else torch.zeros(5).double() for w in wanted]
        )


@pytest.mark.slow("trains on data; make test builds and calls the examples")
@pytest.mark.compile
def test_nile_learns_the_published_constant(user_python: Any) -> None:
    said = user_python.run(EXAMPLES / "smooth" / "nile.py", cwd=EXAMPLES).stdout
    assert "= 0.247, forecast error 144 of 919" in said


@pytest.mark.nightly("installs with pip; tests/build/test_setuptools.py does so for each change")
@pytest.mark.compile
def test_smooth_is_installed_by_pip_and_runs_without_a_compiler(
    copied: Callable[[str], Path], user_python: Any, tmp_path: Path
) -> None:
    project = copied("smooth")
    user_python.pip("install", "-q", "--no-build-isolation", "--no-deps", project, cwd=tmp_path)
    assert "smooth" in user_python.pip("list", cwd=tmp_path).split()
    script = Path(shutil.move(project / "nile.py", tmp_path / "nile.py"))
    assert "0.247" in user_python.run(script, cwd=tmp_path, has_compilers=False).stdout


@pytest.mark.nightly("pip and CMake; make test-all installs the same example with pip")
@pytest.mark.compile
def test_smooth_becomes_a_wheel_by_scikit_build_core(
    copied: Callable[[str], Path], user_python: Any, cmake: Callable[..., str], tmp_path: Path
) -> None:
    pytest.importorskip("scikit_build_core")
    project = copied("smooth")
    readme = (project / "README.md").read_text()
    tables = readme.rpartition("```toml\n")[2].partition("```")[0]
    described = (project / "pyproject.toml").read_text().partition("[project]")[2].partition("[tool.setuptools]")[0]
    (project / "pyproject.toml").write_text(f"{tables}\n[project]{described}")
    out = tmp_path / "wheels"
    user_python.pip("wheel", "-q", "--no-build-isolation", "--no-deps", "-w", out, project, cwd=tmp_path)
    (wheel,) = out.iterdir()
    assert wheel.name.startswith("smooth-0.1.0-py3-none-linux_")
    user_python.pip("install", "-q", "--no-deps", wheel, cwd=tmp_path)
    script = Path(shutil.move(project / "nile.py", tmp_path / "nile.py"))
    assert "0.247" in user_python.run(script, cwd=tmp_path, has_compilers=False).stdout


@pytest.mark.nightly("a tutorial with torch/extension.h; test_existing.py builds with it for each change")
@pytest.mark.compile
def test_pybind_tutorial_loads_by_jit(copied: Callable[[str], Path], user_python: Any) -> None:
    project = copied("tutorial_pybind")
    assert "the gradients are right" in user_python.run("jit.py", cwd=project).stdout


@pytest.mark.nightly("a tutorial with torch/extension.h; test_existing.py builds with it for each change")
@pytest.mark.compile
def test_pybind_tutorial_is_installed_by_setup_py(
    copied: Callable[[str], Path], user_python: Any, tmp_path: Path
) -> None:
    user_python.pip("install", "-q", "--no-build-isolation", "--no-deps", copied("tutorial_pybind"), cwd=tmp_path)
    said = user_python.run("-m", "lltm", cwd=tmp_path, has_compilers=False).stdout
    assert "the gradients are right" in said
    assert f"lltm_cpp.cpython-{sys.version_info.major}{sys.version_info.minor}" in said


@pytest.mark.nightly("compiles torch/extension.h; tests/build/test_cmake.py has the builds of make test-all")
@pytest.mark.compile
def test_library_tutorial_builds_with_cmake_and_loads_without_opsmith(
    copied: Callable[[str], Path], user_python: Any, cmake: Callable[..., str], tmp_path: Path
) -> None:
    project, build = copied("tutorial_library"), tmp_path / "build"
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={find_ninja()}"]
    python = f"-DPython_EXECUTABLE={user_python.executable}"
    cmake("-S", project, "-B", build, *generator, python, f"-DCMAKE_PREFIX_PATH={CMAKE_DIR}")
    cmake("--build", build)
    library = build / "opsmith" / "lltm_tutorial" / "lltm_tutorial.so"
    said = user_python.run("check.py", library, cwd=project, has_compilers=False).stdout
    assert "values and gradients are right" in said
