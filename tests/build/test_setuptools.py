"""`pip install` of a project with operators, and setup.py with existing sources."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import setuptools
from setuptools.errors import SetupError

from opsmith.build import hook
from opsmith.build.setuptools import OperatorExtension
from opsmith.cpp_extension import BuildExtension, CppExtension, CUDAExtension
from opsmith.errors import ArgumentError

_USE = """
import torch, user_scale
print(*user_scale.scale(torch.ones(2), 3.0).tolist(), sep=",", end=" ")
print(user_scale.__file__, *torch.ops.loaded_libraries)
"""


@pytest.mark.slow
@pytest.mark.compile
def test_wheel_serves_any_python_and_runs_without_a_compiler(project: Path, user_python: Any, tmp_path: Path) -> None:
    user_python.pip(
        "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", tmp_path / "wheels", project, cwd=tmp_path
    )
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert wheel.name.startswith("user_scale-1.2.3-py3-none-linux_")
    names = set(zipfile.ZipFile(wheel).namelist())
    kernels = {f"user_scale/kernels/scale.{suffix}" for suffix in ("cpp", "cu", "h")}
    assert kernels | {"user_scale/_ops.so", "user_scale/_ops.json", "user_scale/__init__.py"} <= names

    user_python.pip("install", "-q", "--no-deps", wheel, cwd=tmp_path)
    assert "user-scale" in user_python.pip("list", cwd=tmp_path).replace("_", "-")
    values, place, library = user_python.run("-c", _USE, cwd=tmp_path, has_compilers=False).stdout.split()
    assert values == "3.0,3.0"
    assert Path(library) == Path(place).with_name("_ops.so")
    assert Path(place).is_relative_to(tmp_path / "venv")


@pytest.mark.slow
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
    with pytest.raises(SetupError, match=r"\[tool\.opsmith\]: there is no key operator"):
        hook.finalize_distribution_options(setuptools.Distribution())


def test_project_without_the_table_is_left_alone_and_waits_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    code = """
import sys, setuptools
from opsmith.build import hook
distribution = setuptools.Distribution()
hook.finalize_distribution_options(distribution)
print(distribution.ext_modules, "torch" in sys.modules, "opsmith.build.setuptools" in sys.modules)
"""
    source = Path(hook.__file__).parents[2]
    argv, env = [sys.executable, "-c", code], {"PYTHONPATH": str(source)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["None", "False", "False"], done.stderr


def test_project_with_the_table_gets_an_extension(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    distribution = setuptools.Distribution()
    distribution.ext_modules = None
    hook.finalize_distribution_options(distribution)
    assert [type(extension) for extension in distribution.ext_modules] == [OperatorExtension]


_SETUP = """
from setuptools import setup
from opsmith.cpp_extension import BuildExtension, CppExtension
setup(
    name="existing",
    packages=["inner"],
    ext_modules=[
        CppExtension(
            "inner.fast", ["src/fast.cpp"], include_dirs=["include"], define_macros=[("B", "2"), ("QUIET", None)],
            extra_compile_args={"cxx": ["-DC=4"], "nvcc": []},
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False, no_python_abi_suffix=True)},
)
"""

_FAST = """
#include <Python.h>
#include "a.h"
#ifndef QUIET
#error QUIET is not defined
#endif
static PyObject* sum(PyObject*, PyObject*) { return PyLong_FromLong(A + B + C); }
static PyMethodDef methods[] = {{"sum", sum, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "fast", "", -1, methods};
PyMODINIT_FUNC PyInit_fast() { return PyModule_Create(&definition); }
"""


@pytest.mark.compile
def test_setup_py_builds_existing_sources(user_python: Any, tmp_path: Path) -> None:
    for folder in ("src", "include", "inner"):
        (tmp_path / folder).mkdir()
    (tmp_path / "setup.py").write_text(_SETUP)
    (tmp_path / "src" / "fast.cpp").write_text(_FAST)
    (tmp_path / "include" / "a.h").write_text("#define A 1\n")
    (tmp_path / "inner" / "__init__.py").touch()
    user_python.run("setup.py", "build_ext", "--inplace", cwd=tmp_path)
    assert (tmp_path / "inner" / "fast.so").is_file()
    done = user_python.run("-c", "import torch, inner.fast; print(inner.fast.sum())", cwd=tmp_path, has_compilers=False)
    assert done.stdout == "7\n"


def test_extensions_take_setuptools_arguments_and_change_none() -> None:
    folders, args = ["include"], {"cxx": ["-g"], "nvcc": ["-lineinfo"]}
    extension = CUDAExtension("a.b", [Path("x.cpp"), "x.cu"], include_dirs=folders, extra_compile_args=args)
    assert (extension.cxx_args, extension.nvcc_args, extension.with_gpu) == (("-g",), ("-lineinfo",), True)
    assert extension.sources == ["x.cpp", "x.cu"]
    assert (folders, args) == (["include"], {"cxx": ["-g"], "nvcc": ["-lineinfo"]})
    assert CppExtension("a", ["x.cpp"], extra_compile_args=["-g"]).cxx_args == ("-g",)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"py_limited_api": True}, "py_limited_api is not served yet"),
        ({"dlink": True}, "dlink is not served yet"),
        ({"extra_compile_args": {"sycl": []}}, "'sycl'"),
    ],
)
def test_what_is_to_come_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        CppExtension("a", ["x.cpp"], **arguments)


def test_suffix_option_belongs_to_its_own_class() -> None:
    assert BuildExtension.with_options(no_python_abi_suffix=True).no_python_abi_suffix
    assert not BuildExtension.no_python_abi_suffix
