"""Commands below `opsmith run`, a store of their own, and the smallest project that builds an extension module."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

# No header of torch: what is tested is the way to the build, and this takes a second instead of twenty.
_SOURCE = """
#include <Python.h>
static PyObject* answer(PyObject*, PyObject*) { return PyLong_FromLong(ANSWER); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tiny_native", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_tiny_native() { return PyModule_Create(&module); }
"""

_SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="tiny",
    version="1.0",
    ext_modules=[CppExtension("tiny_native", ["tiny.cpp"], define_macros=[("ANSWER", "42")])],
    cmdclass={"build_ext": BuildExtension},
)
"""


@pytest.fixture
def below(tmp_path: Path) -> Run:
    """Run a command below `opsmith run` and return what came of it."""

    def run(
        *words: str | Path, options: tuple[str, ...] = (), fails: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        folders = [folder for folder in sys.path if folder]
        env = {
            **os.environ,
            # A machine need not have a program that is called "python".
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join(folders),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **environment,
        }
        argv = [sys.executable, "-m", "opsmith", "run", *options, "--", *map(str, words)]
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=600)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A project of somebody else's: a setup.py over torch.utils.cpp_extension, and one source."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "tiny.cpp").write_text(_SOURCE)
    (project / "setup.py").write_text(_SETUP)
    return project
