"""What the drop-in's tests share: a module that compiles in a tenth of a second, and plans without any compiling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from setuptools import Distribution

from opsmith.build.plan import Plan

# A Python module in plain C API: torch/extension.h takes ten seconds.
MODULE = """
#include <Python.h>
#include "value.h"
#ifndef EXTRA
#define EXTRA 0
#endif
#define PASTE(name) PyInit_##name
#define INIT(name) PASTE(name)
#define TEXT(name) #name
#define NAME(name) TEXT(name)
static PyObject* value(PyObject*, PyObject*) { return PyLong_FromLong(VALUE + EXTRA); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, NAME(TORCH_EXTENSION_NAME), "", -1, methods};
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Write the module's source, whose value() is 1, and return its path."""
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    (tmp_path / "module.cpp").write_text(MODULE)
    return tmp_path / "module.cpp"


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """Return a function that plans a setuptools.Extension as the drop-in's build_ext would, and compiles nothing."""
    from opsmith.build.existing import prepare_existing
    from opsmith.cpp_extension import BuildExtension
    from opsmith.cpp_extension.translate import needs_gpu, translate

    def plan(ext: Any, **options: Any) -> Plan:
        command = BuildExtension(Distribution({"name": "x", "ext_modules": [ext]}))
        for name, value in options.items():
            setattr(command, name, value)
        command.ensure_finalized()
        # run() would make the compiler object; what it is told is what counts.
        command.compiler = _Compiler(command)
        extension = translate(ext, ext.sources, "x.so", command)
        return prepare_existing(extension, with_gpu=True if needs_gpu(ext) else None, check_cuda=False).plan

    return plan


class _Compiler:
    def __init__(self, command: Any) -> None:
        self.include_dirs = list(command.include_dirs or ())
        self.libraries = list(command.libraries or ())
        self.library_dirs = list(command.library_dirs or ())
        self.runtime_library_dirs = list(command.rpath or ())
        self.objects = list(command.link_objects or ())
        self.macros = list(command.define or ())
