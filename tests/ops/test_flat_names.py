"""`from opsmith.ops import nms` is the function, whatever was imported before, and so with every other public name."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import opsmith.ops
from opsmith.subject.find import find_operators

FOLDERS = [
    module.name
    for module in pkgutil.iter_modules(opsmith.ops.__path__)
    if module.ispkg
    and not module.name.startswith("_")
    and module.name != "stylegan"  # which has other libraries' names
]


def test_every_public_name_of_a_folder_is_the_packages_own():
    folders = [importlib.import_module(f"opsmith.ops.{folder}") for folder in FOLDERS]
    names = {name: getattr(folder, name) for folder in folders for name in folder.__all__}
    assert len(names) == sum(len(folder.__all__) for folder in folders)
    assert sorted(names) == sorted(opsmith.ops.__all__)
    assert names.keys() <= set(dir(opsmith.ops))
    assert all(getattr(opsmith.ops, name) is value for name, value in names.items())


def test_type_checkers_see_the_names_of_every_folder():
    tree = ast.parse(Path(opsmith.ops.__file__).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    assert [node.module for node in found] == [f"opsmith.ops.{folder}" for folder in FOLDERS]


def test_the_function_has_its_folders_name_after_any_import():
    program = """
import importlib, sys
for imports in (
    "from opsmith.ops import nms",
    "import opsmith.ops.nms; from opsmith.ops import nms",
    "from opsmith.ops.nms.hard import hard_nms; from opsmith.ops import nms",
    "import opsmith.ops.nms as nms",
    "from opsmith.ops import *",
):
    for name in [name for name in sys.modules if name.startswith("opsmith.ops")]:
        del sys.modules[name]
    namespace = {}
    exec(imports, namespace)
    package, folder = sys.modules["opsmith.ops"], importlib.import_module("opsmith.ops.nms")
    assert type(folder) is type(sys), imports
    assert namespace["nms"] is package.nms is folder.nms, imports
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_folder_is_still_a_module():
    from opsmith.ops.nms import nms_padded
    from opsmith.ops.nms.mmcv import nms as nms_of_mmcv

    assert nms_padded is opsmith.ops.nms_padded
    assert nms_of_mmcv is not opsmith.ops.nms
    names = [operator.definition.name for operator in find_operators("opsmith.ops.nms")]
    assert "hard_nms" in names
    assert find_operators("opsmith.ops::nms") == (opsmith.ops.nms,)


@pytest.mark.parametrize("name", ["nms", "sigmoid", "DeformConv2d"])
def test_names_are_pickled(name):
    value = getattr(opsmith.ops, name)
    assert pickle.loads(pickle.dumps(value)) is value


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'opsmith\.ops' has no attribute 'nmss'"):
        _ = opsmith.ops.nmss


def test_a_name_costs_neither_torchs_compilers_nor_a_build():
    program = (
        "import sys\nimport opsmith.ops\nassert 'torch' not in sys.modules and dir(opsmith.ops)\n"
        "from opsmith.ops import add2, sigmoid\n"
        "assert not add2.is_loaded and not sigmoid.is_loaded\n"
        "assert not {'torch._dynamo', 'torch._inductor', 'opsmith.build', 'opsmith.ops.nms'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
