"""Declares operators that may be nonsense: each is refused by a DefinitionError, or has a schema and a binding.

What PyTorch cannot parse, or a compiler does not take, is found here and not when the operator is first called.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import strategies as st
from outcomes import Raised, attempt

from compilers import INCLUDE, find_compiler, run
from opsmith.codegen.binding import generate_binding
from opsmith.runtime.operator import Operator, operators_of

_NAMES = (
    "x",
    "y",
    "n",
    "B",
    "T",
    "out",
    "grad_out",
    "needs_grad_x",
    "self",
    "op",
    "stack",
    "device",
    "size",
    "context",
)
_RESERVED = (
    "int",
    "new",
    "template",
    "signed",
    "and",
    "Tensor",
    "View",
    "std",
    "main",
    "NULL",
    "errno",
    "assert_",
    "_",
)
_STRANGE = ("\N{LATIN SMALL LETTER E WITH ACUTE}", "__x__", "a" * 300, "_0", "class_", "print", "opsmith")
_DIMENSIONS = (
    *("B", "N", "B N", "N N", "*shape", "*batch N", "B *inner", "*a *b", "...", "", "_", "1", "0", "-1", "N-1", "3*N"),
    *(
        "N//2",
        "N%3",
        "2*N+1",
        "N//M",
        "B (N-1)//2+1",
        "N*N",
        "N//0",
        "N%0",
        "N-N",
        "M*N+B",
        "N//N",
        "-N",
        "N+",
        "(N",
        "N**2",
    ),
    *("N=3", "#N", "?N", "{n}", "n", "n*N", "9223372036854775807", "9223372036854775808", "4611686018427387904*N"),
    *("N*9223372036854775807", "N//9223372036854775808", "N//-1", "N " * 70, "+".join(["N"] * 500), "1+" * 400 + "N"),
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
)
_ELEMENTS = (
    "Float",
    "Float",
    "Float",
    "Real",
    "Int",
    "Bool",
    "Int64",
    "Float32",
    "BFloat16",
    "Complex",
    "Shaped",
    "UInt4",
)
_OTHERS = (
    *("int", "float", "bool", "str", "list[int]", "list[float]", "int | None", "float | None", "bool | None", "Tensor"),
    *(
        "str | None",
        "tuple[int, int]",
        "list[str]",
        "list[list[int]]",
        "dict[str, int]",
        "None",
        "Any",
        "complex",
        "bytes",
    ),
    *(
        "Missing",
        "'int'",
        "Literal['a']",
        "torch.dtype",
        "torch.device",
        "Float",
        "Float[Tensor, 3]",
        "Float[int, 'N']",
    ),
)
_DEFAULTS = (
    *(
        "1",
        "0",
        "-1",
        "2**63",
        "-2**63 - 1",
        "1.5",
        "float('inf')",
        "float('nan')",
        "5e-324",
        "10.0**308",
        "True",
        "None",
    ),
    *(
        "''",
        "'a'",
        "'\\r\\n'",
        "'a\"b'",
        "'\\\\'",
        "'\\0'",
        "'\\udc80'",
        "'%s'",
        "[]",
        "[1, 2]",
        "(1, 2)",
        "object()",
        "b''",
        "1j",
    ),
)

_usual = st.sampled_from(("B N", "B N", "B", "*shape", "N", "*batch N"))
_expressions = st.one_of(_usual, st.sampled_from(_DIMENSIONS), st.text("BNM nk0123456789*+-/%()_.?#=", max_size=12))
_tensors = st.builds(
    lambda element, dimensions, form: form.replace("{}", f"{element}[Tensor, {dimensions!r}]"),
    st.sampled_from(_ELEMENTS),
    _expressions,
    st.sampled_from(("{}", "{}", "{}", "{}", "{} | None", "list[{}]", "list[{} | None]", "tuple[{}, {}]")),
)
_parameters = st.tuples(
    st.sampled_from((*_NAMES, *_RESERVED, *_STRANGE)),
    st.one_of(_tensors, _tensors, st.sampled_from(_OTHERS)),
    st.one_of(st.none(), st.none(), st.sampled_from(_DEFAULTS)),
)
_OPTIONS = (
    *("", "", "", "dtypes=[torch.float32]", "dtypes=[torch.int64]", "dtypes=[]", "dtypes={'T': [torch.float32]}"),
    *("mutates='x'", "saved='out'", "outputs=['a', 'a']", "outputs=['x']", "contiguous='z'", "nondifferentiable='x'"),
    *("preserve_format={'out': 'x'}", "passes_gradient={'x': 'out'}", "dtypes=[torch.float32] * 3", "outputs='ab'"),
    "batch='B'",
)


def _source(
    name: str, parameters: list[tuple[str, str, str | None]], result: str, option: str, has_kernel: bool
) -> str:
    options = ", ".join(filter(None, ['cpu="kernel.cpp"' if has_kernel else "", option]))
    declared = [f"{name}: {kind}" + ("" if default is None else f" = {default}") for name, kind, default in parameters]
    # What has a default comes last.
    declared.sort(key=lambda text: " = " in text)
    return (
        "from __future__ import annotations\n"
        "from typing import Any, Literal\n"
        "import opsmith, torch\n"
        "from torch import Tensor\n"
        "from jaxtyping import *\n"
        f"@opsmith.op({options})\n"
        f"def {name}({', '.join(declared)}) -> {result}:\n"
        f"    return {parameters[0][0]}\n"
    )


def _named(least: int, most: int) -> st.SearchStrategy[list[tuple[str, str, str | None]]]:
    return st.lists(_parameters, min_size=least, max_size=most, unique_by=lambda parameter: parameter[0])


_modules = st.builds(
    _source,
    st.sampled_from(("f", "f", "f", "int", "op", "_", "A" * 100, "\N{LATIN SMALL LETTER E WITH ACUTE}")),
    st.one_of(_named(1, 2), _named(1, 6)),
    st.one_of(st.just("Float[Tensor, 'B N']"), _tensors, st.sampled_from(_OTHERS)),
    st.sampled_from(_OPTIONS),
    st.booleans(),
)


def test_any_definition(fuzz: Callable[..., None], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "kernel.cpp").write_text("#include <opsmith/kernel.h>\n")
    compiles = request.config.getoption("--fuzz-seconds", None) is not None

    def test(source: str) -> None:
        found = attempt(lambda: _declare(source, tmp_path, compiles=compiles))
        if isinstance(found, Raised) and found.kind != "SyntaxError":  # Python's own
            assert found.is_ours, f"{found.kind}: {found.text[:2000]}"

    fuzz(_modules, test, examples=80)


def _declare(source: str, folder: Path, *, compiles: bool) -> None:
    """Import a module with a definition, and go with it as far as goes without a compiler, or with one."""
    file = folder / "fuzzed.py"
    file.write_text(source, encoding="utf-8")
    for operator in operators_of(_import(file).__name__):
        torch._C.parse_schema(operator.definition.signature.schema)
        if not operator.definition.kernels:
            operator.load()  # registered in Python
        else:
            _bind(operator, folder, compiles=compiles)


def _import(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzzed", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["fuzzed"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _bind(operator: Operator, folder: Path, *, compiles: bool) -> None:
    binding = generate_binding([operator.definition], ["cpu"])
    if compiles:
        (folder / "binding.cpp").write_text(binding, encoding="utf-8")
        run(find_compiler("g++"), "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", folder / "binding.cpp")
