"""find_package(opsmith): operators and existing sources, with both of CMake's common generators."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsmith.build.cmake import CMAKE_DIR
from opsmith.toolchain import find_ninja
from some import some

_LISTS = """
cmake_minimum_required(VERSION 3.24)
project(user LANGUAGES NONE)
find_package(opsmith REQUIRED)
opsmith_add_operators(scale_ops user_scale DEVICES cpu DESTINATION user_scale)
opsmith_add_extension(existing_cmake SOURCES src/existing.cpp INCLUDE_DIRS include CXX_FLAGS -DFACTOR=3 DESTINATION lib)
message(STATUS "found ${scale_ops_LIBRARY} ${existing_cmake_LIBRARY}")
"""

_EXISTING = """
#include <torch/csrc/stable/library.h>
#include "offset.h"
namespace {
int64_t affine(int64_t x) { return x * FACTOR + OFFSET; }
}
STABLE_TORCH_LIBRARY(existing_cmake, m) { m.def("affine(int x) -> int"); }
STABLE_TORCH_LIBRARY_IMPL(existing_cmake, CompositeExplicitAutograd, m) { m.impl("affine", TORCH_BOX(&affine)); }
"""

# opsmith may be installed beside torch: this makes it impossible to import.
_ALONE = """
import sys
sys.modules["opsmith"] = None
import torch
for library in sys.argv[1:]:
    torch.ops.load_library(library)
print(torch.ops.user_scale.scale(torch.ones(2), 3.0).tolist(), torch.ops.existing_cmake.affine(2))
"""


@pytest.fixture
def cmake_project(project: Path) -> Path:
    (project / "CMakeLists.txt").write_text(_LISTS)
    for folder, file, text in (("src", "existing.cpp", _EXISTING), ("include", "offset.h", "#define OFFSET 1\n")):
        (project / folder).mkdir()
        (project / folder / file).write_text(text)
    return project


def options(user_python: Any, generator: str) -> list[str]:
    chosen = ["-G", generator, f"-DCMAKE_PREFIX_PATH={CMAKE_DIR}", f"-DPython_EXECUTABLE={user_python.executable}"]
    return [*chosen, f"-DCMAKE_MAKE_PROGRAM={find_ninja()}"] if generator == "Ninja" else chosen


@pytest.mark.compile
@pytest.mark.parametrize("generator", some(["Ninja", "Unix Makefiles"], 0, "configures and builds twice", at_most=1))
def test_project_builds_and_its_libraries_load_without_opsmith(
    generator: str, cmake_project: Path, user_python: Any, cmake: Callable[..., str], tmp_path: Path
) -> None:
    if generator == "Unix Makefiles" and shutil.which("make") is None:
        pytest.skip("make is not installed")
    build = tmp_path / "build"
    said = cmake("-S", cmake_project, "-B", build, *options(user_python, generator))
    cmake("--build", build)
    libraries = [
        build / "opsmith" / "scale_ops" / "_ops.so",
        build / "opsmith" / "existing_cmake" / "existing_cmake.so",
    ]
    assert f"found {libraries[0]} {libraries[1]}" in said

    def load() -> str:
        done = user_python.run("-c", _ALONE, *libraries, cwd=tmp_path, has_compilers=False)
        return str(done.stdout)

    assert load() == "[3.0, 3.0] 7\n"

    # A header that only the compiler knows of: its edit is noticed, and nothing else is built again.
    (cmake_project / "include" / "offset.h").write_text("#define OFFSET 100\n")
    again = cmake("--build", build)
    assert load() == "[3.0, 3.0] 106\n"
    assert "binding.cpp" not in again

    # Installed beside its package, the library is taken by opsmith with no compiler at hand.
    cmake("--install", build, "--prefix", tmp_path / "installed")
    package = tmp_path / "installed" / "user_scale"
    shutil.copytree(cmake_project / "user_scale", package, dirs_exist_ok=True)
    code = "import torch, user_scale; print(user_scale.scale(torch.ones(1), 2.0).item(), *torch.ops.loaded_libraries)"
    done = user_python.run("-c", code, cwd=tmp_path / "installed", has_compilers=False)
    assert done.stdout.split() == ["2.0", str(package / "_ops.so")]


@pytest.mark.slow("configures and builds with CMake")
@pytest.mark.compile
def test_broken_source_fails_the_build_at_the_users_line(
    cmake_project: Path, user_python: Any, cmake: Callable[..., str], tmp_path: Path
) -> None:
    source = cmake_project / "src" / "existing.cpp"
    source.write_text(source.read_text().replace("x * FACTOR", "y * FACTOR"))
    cmake("-S", cmake_project, "-B", tmp_path / "build", *options(user_python, "Ninja"))
    said = cmake("--build", tmp_path / "build", "--target", "existing_cmake", fails=True)
    assert f"{source}:5:" in said.replace("./existing.cpp", str(source))


@pytest.mark.slow("configures with CMake")
def test_missing_source_is_named(
    cmake_project: Path, user_python: Any, cmake: Callable[..., str], tmp_path: Path
) -> None:
    (cmake_project / "src" / "existing.cpp").unlink()
    said = cmake("-S", cmake_project, "-B", tmp_path / "build", *options(user_python, "Ninja"), fails=True)
    assert "no source file" in said
    assert "Traceback" not in said


@pytest.mark.slow("configures with CMake")
def test_a_module_may_print_as_it_is_imported(
    cmake_project: Path, user_python: Any, cmake: Callable[..., str], tmp_path: Path
) -> None:
    module = cmake_project / "user_scale" / "__init__.py"
    module.write_text("import os\nprint('from Python')\nos.write(1, b'from C')\n" + module.read_text())
    said = cmake("-S", cmake_project, "-B", tmp_path / "build", *options(user_python, "Ninja"))
    assert f"found {tmp_path / 'build' / 'opsmith' / 'scale_ops' / '_ops.so'}" in said
    assert "from Python" in said
    assert "from C" in said


def test_python_without_opsmith_is_named(cmake_project: Path, cmake: Callable[..., str], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare = tmp_path / "bare" / "bin" / "python"
    chosen = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={find_ninja()}", f"-DCMAKE_PREFIX_PATH={CMAKE_DIR}"]
    said = cmake("-S", cmake_project, "-B", tmp_path / "build", *chosen, f"-DPython_EXECUTABLE={bare}", fails=True)
    assert "cannot import opsmith" in " ".join(said.split())
