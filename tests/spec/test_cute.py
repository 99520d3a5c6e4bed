"""A CuTe DSL function's parameters get their values by name; one that does not fit is refused with the prototype."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith
from opsmith.codegen.cute_variants import find_cute_variants
from opsmith.codegen.prototype import skeleton
from opsmith.codegen.python_source import read_cute_function
from opsmith.errors import CompileError, DefinitionError, SignatureError
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.cute import cute_prototype, match_cute_arguments
from opsmith.spec.cute_function import find_cute_function
from opsmith.spec.definition import Definition
from opsmith.spec.kernel_arguments import KernelArgument


def gather(
    x: Float[Tensor, "B 3*S"],
    at: Int64[Tensor, "B"],
    weight: Float[Tensor, "S"] | None,
    factor: float,
    k: int,
    mode: Literal["a", "b"],
    is_last: bool,
) -> Float[Tensor, "B S"]:
    """Serves to give a signature."""
    return x[:, : x.shape[1] // 3]


@pytest.fixture
def defined(tmp_path: Path) -> Callable[..., Definition]:
    def declare(
        parameters: str, head: str = "@cute.jit", body: Callable[..., Any] = gather, **given: Any
    ) -> Definition:
        (tmp_path / "kernel.py").write_text(f"\n{head}\ndef kernel({parameters}):\n    pass\n")
        found = opsmith.cute(str(tmp_path / "kernel.py:kernel"), **{"VALUES": 4, **given})
        return define(body, OpOptions(cuda=found, outputs="y", namespace="matching_cute"))

    return declare


_ALL = (
    "x: cute.Tensor, at: cute.Tensor, weight: Optional[cute.Tensor], factor: cutlass.Float32, k: cutlass.Int32, "
    "mode: cutlass.Constexpr, is_last: Boolean, y: 'cute.Tensor', VALUES: cutlass.Constexpr[int], stream: cuda.CUstream"
)


def _matched(definition: Definition) -> tuple[KernelArgument, ...]:
    return match_cute_arguments(definition, read_cute_function(definition))


def test_each_parameter_gets_what_it_is_named_for(defined: Callable[..., Definition]) -> None:
    found = _matched(defined(f"S: Int64, {_ALL}"))
    assert [(each.name, each.role, each.type) for each in found] == [
        ("S", "quantity", "int64_t"),
        ("x", "tensor", ""),
        ("at", "tensor", ""),
        ("weight", "tensor", ""),
        ("factor", "number", "float"),
        ("k", "quantity", "int32_t"),
        ("mode", "choice", ""),
        ("is_last", "flag", ""),
        ("y", "tensor", ""),
        ("VALUES", "constant", ""),
        ("stream", "stream", ""),
    ]


def test_a_kernel_is_compiled_for_types_choices_and_whether_a_tensor_is_given(
    defined: Callable[..., Definition],
) -> None:
    definition = defined(_ALL, configs=[{"VALUES": 8, "when": "S % 8 == 0"}, {"VALUES": 1}])
    variants = find_cute_variants(definition, read_cute_function(definition))
    assert (len(variants.dtypes), len(variants.choices), len(variants.configs)) == (4, 4, 2)
    assert variants.count == 32


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("at: cute.Tensor, ", "", "the kernel does not take `at`"),
        (", stream: cuda.CUstream", "", "it takes no stream, and would launch on another than PyTorch's"),
        ("x: cute.Tensor", "x", "`x` is a tensor, which is `cute.Tensor`; the function does not annotate it"),
        ("k: cutlass.Int32", "k: int", "`k` is an integer, which is `cutlass.Int32` or `cutlass.Int64`; the function"),
        ("factor: cutlass.Float32", "factor: cutlass.Int32", "`factor` is a float, which is `cutlass.Float32`"),
        ("factor: cutlass.Float32", "factor: cutlass.Constexpr", "`factor` has any value, and `cutlass.Constexpr` is"),
        ("mode: cutlass.Constexpr", "mode: cutlass.Int32", "`mode` is str, which a function takes as"),
        ("VALUES: cutlass.Constexpr[int]", "VALUES: cutlass.Int32", "`VALUES` is a constant of the kernel, which"),
        (", VALUES: cutlass.Constexpr[int]", "", "the launch gives the constant `VALUES`"),
        ("stream:", "x_stride_0: cutlass.Int64, stream:", "a tensor brings its strides along; they are `x.stride`"),
        ("stream:", "other: cute.Tensor, stream:", "`other` is no tensor, size or argument of the definition"),
        ("VALUES:", "*, VALUES:", "`VALUES` is given by keyword alone"),
        ("stream:", "more: cuda.CUstream, stream:", "it takes several streams, more, stream"),
    ],
)
def test_a_function_that_does_not_fit(defined: Callable[..., Definition], old: str, new: str, complaint: str) -> None:
    assert old in _ALL
    definition = defined(_ALL.replace(old, new))
    with pytest.raises(SignatureError) as caught:
        _matched(definition)
    text = str(caught.value)
    assert complaint in text
    assert "kernel.py:3: the kernel `kernel` does not match its definition" in text
    assert f"the definition offers  {cute_prototype(definition)}" in text


def test_a_condition_of_something_unknown(defined: Callable[..., Definition]) -> None:
    definition = defined(_ALL, configs=[{"VALUES": 8, "when": "Q > 1"}, {"VALUES": 1}])
    with pytest.raises(SignatureError, match="`Q` is no number of the definition"):
        _matched(definition)


def test_a_constant_may_not_be_called_like_a_size(defined: Callable[..., Definition]) -> None:
    with pytest.raises(SignatureError, match="`S` is a constant of the kernel and a value of the call"):
        _matched(defined(f"{_ALL}, S: cutlass.Constexpr", S=3))


@pytest.mark.parametrize(
    ("head", "words"), [("", "does not decorate with @cute.jit the function `kernel`"), ("@cute.kernel", "does not")]
)
def test_a_function_that_launches_nothing(defined: Callable[..., Definition], head: str, words: str) -> None:
    with pytest.raises(SignatureError, match=words):
        read_cute_function(defined(_ALL, head=head))


def test_a_file_that_is_not_python(defined: Callable[..., Definition], tmp_path: Path) -> None:
    definition = defined(_ALL)
    (tmp_path / "kernel.py").write_text("def kernel(:\n")
    with pytest.raises(CompileError, match=r"kernel\.py:1: the kernel's file is not Python"):
        read_cute_function(definition)


def test_a_kernel_for_the_cpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"cpu= names the CuTe kernel .*; give it as cuda="):
        define(gather, OpOptions(cpu=opsmith.cute(str(tmp_path / "kernel.py")), namespace="matching_cute"))


def test_the_skeleton_has_a_function_that_fits(defined: Callable[..., Definition]) -> None:
    definition = defined(_ALL)
    text = skeleton([definition], "cuda")
    ast.parse(text)
    function = find_cute_function(text, "kernel")
    assert function is not None
    assert function.is_jit
    found = match_cute_arguments(definition, function)
    assert {"x", "y", "B", "S", "VALUES", "stream"} <= {each.name for each in found}


@pytest.mark.parametrize(
    ("annotation", "type_"),
    [
        ("cute.Tensor", "Tensor"),
        ("'cute.Tensor'", "Tensor"),
        ("cute.Tensor | None", "Tensor"),
        ("typing.Optional[cute.Tensor]", "Tensor"),
        ("cutlass.Constexpr[int]", "Constexpr"),
        ("list[cute.Tensor]", "list"),
        ("'not python ('", ""),
        ("3", ""),
    ],
)
def test_annotations(annotation: str, type_: str) -> None:
    function = find_cute_function(f"@cutlass.cute.jit\ndef f(a: {annotation}): ...", "f")
    assert function is not None
    assert function.parameters[0].type == type_
