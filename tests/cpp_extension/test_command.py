"""BuildExtension at work: several extensions, subclasses, plain extensions, the store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opsmith
from opsmith.cpp_extension import BuildExtension

from .conftest import MODULE

SETUP = """
import os
from setuptools import Extension, setup
from opsmith.cpp_extension import BuildExtension, CppExtension

class Command(BuildExtension):
    def finalize_options(self):
        super().finalize_options()
        print("finalize", self.use_ninja)

    def build_extensions(self):
        assert self.compiler.compiler_type == "unix"
        for ext in self.extensions:
            if isinstance(ext.extra_compile_args, dict):
                ext.extra_compile_args["cxx"].append("-DEXTRA=40")
        super().build_extensions()

setup(
    name="several",
    packages=["inner"],
    include_dirs="include",
    ext_modules=[
        CppExtension("inner.first", ["a/module.cpp"], extra_compile_args={"cxx": ["-DX"]}),
        CppExtension("inner.second", ["b/module.cpp"]),
        CppExtension("third", ["b/module.cpp", "c/other.cpp", "c/other.c"], py_limited_api=True),
        Extension("plain", ["plain.c"]),
        CppExtension("broken", ["broken.cpp"], optional=True),
    ],
    cmdclass={"build_ext": Command.with_options(no_python_abi_suffix=True, use_ninja=False)},
)
"""

PLAIN = """
#include <Python.h>
static int new = 5; /* C, not C++ */
static PyObject* value(PyObject* self, PyObject* args) { return PyLong_FromLong(new); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {0, 0, 0, 0}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plain", "", -1, methods};
PyMODINIT_FUNC PyInit_plain(void) { return PyModule_Create(&definition); }
"""


@pytest.fixture
def several(tmp_path: Path) -> Path:
    for folder in ("a", "b", "c", "include", "inner"):
        (tmp_path / folder).mkdir()
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "inner" / "__init__.py").touch()
    (tmp_path / "include" / "value.h").write_text("#define VALUE 2\n")
    for folder in "ab":
        (tmp_path / folder / "module.cpp").write_text(MODULE)
    (tmp_path / "c" / "other.cpp").write_text("int other() { return 1; }\n")
    (tmp_path / "c" / "other.c").write_text("int another() { return 1; }\n")
    (tmp_path / "plain.c").write_text(PLAIN)
    (tmp_path / "broken.cpp").write_text("no C++ at all\n")
    return tmp_path


def python(folder: Path, *arguments: str, **variables: str) -> str:
    path = os.pathsep.join([str(Path(opsmith.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **variables}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


USE = """
import torch, inner.first, inner.second, third, plain
print(*(module.value() for module in (inner.first, inner.second, third, plain)))
"""


@pytest.mark.nightly("compiles torch/extension.h three times")
@pytest.mark.compile
def test_several_extensions_of_one_setup_do_not_meet(several: Path) -> None:
    """#10, #9: PyTorch gives all of them one build.ninja and objects named after the last part of the path."""
    out = python(several, "setup.py", "build_ext", "--inplace")
    assert "finalize" in out
    assert "broken" in out  # an optional extension that fails is told of, and ends nothing
    assert {"first.so", "second.so"} <= {path.name for path in (several / "inner").iterdir()}
    assert (several / "third.so").is_file()
    assert python(several, "-c", USE).split() == ["42", "2", "2", "5"]
    # The second time the libraries come from the store.
    again = python(several, "setup.py", "build_ext", "--inplace")
    assert "opsmith: building inner.first" in out
    assert "opsmith: building inner.first" not in again
    # An edited header is noticed without --force.
    (several / "include" / "value.h").write_text("#define VALUE 3\n")
    python(several, "setup.py", "build_ext", "--inplace", "-j2")
    assert python(several, "-c", USE).split() == ["43", "3", "3", "5"]


@pytest.mark.compile
@pytest.mark.slow("setup.py builds an extension")
def test_store_that_cannot_be_written_does_not_stop_a_build(several: Path) -> None:
    (several / "file").touch()
    setup = SETUP.split("class Command", maxsplit=1)[0] + (
        'setup(name="x", include_dirs="include", ext_modules=[CppExtension("x", ["a/module.cpp"])],'
        ' cmdclass={"build_ext": BuildExtension})'
    )
    (several / "setup.py").write_text(setup)
    out = python(several, "setup.py", "build_ext", "--inplace", OPSMITH_CACHE_DIR=str(several / "file"))
    assert "which may be temporary" in out
    assert python(several, "-c", "import torch, x; print(x.value())") == "2\n"


WITHOUT_NINJA = """
from opsmith.build import ninja
from opsmith.errors import ToolchainError
from setuptools import setup
from opsmith.cpp_extension import BuildExtension, CppExtension

def find_ninja():
    raise ToolchainError("ninja was not found")

ninja.find_ninja = find_ninja
extension = CppExtension("alone", ["a/module.cpp"])
setup(name="x", include_dirs="include", ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
"""


@pytest.mark.compile
@pytest.mark.slow("setup.py builds three times")
def test_build_without_ninja_shows_commands_where_asked_and_compiles_again_by_force(several: Path) -> None:
    (several / "setup.py").write_text(WITHOUT_NINJA)
    store = str(several / "store")
    first = python(several, "setup.py", "build_ext", "--inplace", "-v", OPSMITH_CACHE_DIR=store)
    assert "ninja was not found" in first
    assert "-DTORCH_EXTENSION_NAME=alone" in first, "-v shows the command lines"
    assert "lock" not in first
    forced = python(several, "setup.py", "build_ext", "--inplace", "--force", OPSMITH_CACHE_DIR=store)
    assert "opsmith: building alone" in forced
    assert "-DTORCH_EXTENSION_NAME=alone" not in forced
    assert python(several, "-c", "import torch, alone; print(alone.value())") == "2\n"


@pytest.mark.slow("setup.py in a process of its own")
@pytest.mark.compile
def test_failed_extension_ends_setup_with_the_users_line_and_no_traceback(several: Path) -> None:
    (several / "setup.py").write_text(
        "from setuptools import setup\nfrom opsmith.cpp_extension import *\n"
        'setup(name="x", ext_modules=[CppExtension("broken", ["broken.cpp"])], cmdclass={"build_ext": BuildExtension})'
    )
    env = {**os.environ, "PYTHONPATH": str(Path(opsmith.__file__).parents[1])}
    argv = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(argv, cwd=several, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "broken.cpp:1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_belong_to_their_own_class() -> None:
    chosen: Any = BuildExtension.with_options(no_python_abi_suffix=True)
    assert issubclass(chosen, BuildExtension)
    assert chosen.no_python_abi_suffix
    assert not BuildExtension.no_python_abi_suffix
    from setuptools import Distribution

    assert chosen(Distribution()).no_python_abi_suffix
    assert BuildExtension(Distribution(), no_python_abi_suffix=True).no_python_abi_suffix
    assert chosen(Distribution()).get_ext_filename("a.b") == str(Path("a", "b.so"))


def test_build_for_another_torch_is_announced_before_and_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from setuptools import Distribution

    from opsmith.cpp_extension import CppExtension, command

    built: list[str] = []
    monkeypatch.setattr(command, "describe_other_torch", lambda torch: "pip install --no-build-isolation .")
    monkeypatch.setattr(BuildExtension, "build_extension", lambda self, ext: built.append(capsys.readouterr().err))
    builder: Any = BuildExtension(Distribution())
    builder.extensions, builder.parallel, builder.shlibs = [CppExtension("x", ["a.cpp"])], None, []
    builder.build_extensions()
    for said in (*built, capsys.readouterr().err):
        assert "!!!!\nopsmith: WARNING: pip install --no-build-isolation .\n!!!!" in said


def test_check_of_the_cuda_version_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """#11: several projects assign `_check_cuda_version` to get past a mismatch."""
    from setuptools import Distribution, Extension
    from setuptools.errors import CompileError

    from opsmith import cpp_extension
    from opsmith.errors import ToolchainError

    def refuse(*arguments: Any) -> None:
        raise ToolchainError("nvcc is 13, torch is 12")

    built: list[str] = []
    monkeypatch.setattr(BuildExtension, "build_extension", lambda self, ext: built.append(ext.name))
    command: Any = BuildExtension(Distribution())
    command.extensions, command.parallel = [Extension("x", ["a.cu"])], None
    command.shlibs = []
    monkeypatch.setitem(vars(cpp_extension), "_check_cuda_version", refuse)
    with pytest.raises(CompileError, match="nvcc is 13, torch is 12"):
        command.build_extensions()
    monkeypatch.setitem(vars(cpp_extension), "_check_cuda_version", lambda *arguments: None)
    command.build_extensions()
    assert built == ["x"]
