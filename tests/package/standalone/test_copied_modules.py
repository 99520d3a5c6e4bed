"""A standalone wheel's copy of opsmith is complete, and no larger than that."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opsmith
from opsmith.package.standalone.copy import _JAXTYPING
from opsmith.package.standalone.modules import DATA, NAMES, is_copied, module_files

ROOT = Path(opsmith.__file__).parent
COPIED = frozenset(file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in module_files())

# What is imported only inside functions that a standalone wheel never runs.
LEADS_OUT = {
    ("runtime.bridge", "runtime.bridge_library"),  # without a compiler and a store there is no bridge
    ("runtime.load", "runtime.from_store"),  # a library that is missing is an error there
    ("runtime.register", "runtime.interpret"),  # needs the kernels' sources and Triton
    ("toolchain.facts", "toolchain.cuda"),  # asks nvcc, for builds alone
}
# Where the copy begins: what a definition calls, and what is imported by a name in a text.
ENTRIES = {
    "__init__",
    "runtime.declare",
    "runtime.kernel_file",
    "runtime.operator",
    "runtime.torchscript",
    "catalogue.lookup",
    "store.keys",
    "store.manifest",
    "toolchain.torch_install",
}
ELSEWHERE = {"torch", "tomli"} | sys.stdlib_module_names


def statements(module: str) -> Iterator[tuple[str, bool]]:
    """Yield what a copied module imports, and whether only a function does; what is for type checkers is left out."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    tree = ast.parse((path if path.is_file() else path.with_suffix("") / "__init__.py").read_bytes())
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, inside = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name for name in names if (ROOT.parent / f"{name.replace('.', '/')}.py").is_file()]
            yield from ((name, inside) for name in [str(node.module), *found])
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        todo += [(child, inside or is_function) for child in ast.iter_child_nodes(node)]


def own(name: str) -> str:
    return name.removeprefix("opsmith").removeprefix(".") or "__init__"


def test_every_import_leads_into_the_copy() -> None:
    led_out = {
        (module, own(name))
        for module in COPIED
        for name, inside in statements(module)
        if name.partition(".")[0] == "opsmith" and not is_copied(name)
    }
    assert led_out == LEADS_OUT
    outside = {
        pair for pair in LEADS_OUT for name, inside in statements(pair[0]) if own(name) == pair[1] and not inside
    }
    assert not outside


def test_it_needs_torch_and_pythons_own_modules_alone() -> None:
    needed = {name.partition(".")[0] for module in COPIED for name, _ in statements(module)}
    assert needed - ELSEWHERE == {"opsmith"}


def test_it_has_no_module_that_nothing_leads_to() -> None:
    seen: set[str] = set()
    todo = list(ENTRIES)
    while todo:
        module = todo.pop()
        if module not in seen and is_copied(f"opsmith.{module}".replace(".__init__", "")):
            seen.add(module)
            todo += [own(name) for name, _ in statements(module) if name.partition(".")[0] == "opsmith"]
            todo += [module.rpartition(".")[0]] if "." in module else []
    assert sorted(COPIED - seen) == []


def test_its_files_exist_and_its_names_are_public() -> None:
    assert all((ROOT / file).is_file() for file in (*module_files(), *DATA))
    assert set(opsmith.__all__) >= NAMES
    assert is_copied("opsmith") and is_copied("opsmith.errors") and is_copied("opsmith.runtime")
    assert not is_copied("opsmith.checker") and not is_copied("opsmith.ops.nms")


def test_jaxtyping_is_required_as_opsmith_requires_it() -> None:
    pyproject = ROOT.parents[1] / "pyproject.toml"
    if not pyproject.is_file():
        pytest.skip("opsmith is installed without its pyproject.toml")
    assert re.search(rf'^  "{re.escape(_JAXTYPING)}",$', pyproject.read_text(), re.MULTILINE)
