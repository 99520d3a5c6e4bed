"""From a Python function to a signature: what can be said, and how the rest is refused."""

from __future__ import annotations  # as a user's module may: every annotation here is a string

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Literal, Optional

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Complex, Float, Float32, Int, Int64, Real
from torch import Tensor

from opsmith.errors import DefinitionError
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.signature import Kind, Signature

Vector = Float[Tensor, "N"]


def read(function: Callable[..., Any], **choices: Any) -> Signature:
    return read_signature(function, Choices(**choices))


def refusal(function: Callable[..., Any], **choices: Any) -> str:
    with pytest.raises(DefinitionError) as error:
        read(function, **choices)
    return str(error.value)


def test_every_kind_of_argument_and_its_schema() -> None:
    def f(
        x: Float[Tensor, "B N"],
        mask: Bool[Tensor, "N"] | None,
        levels: list[Float[Tensor, "B C _ _"]],
        i: int,
        g: float,
        b: bool,
        s: str,
        ints: list[int],
        floats: Sequence[float],
        more: tuple[int, ...],
        oi: int | None = None,
        of: Optional[float] = 1,  # noqa: UP045 - the old spelling is read as well
        ob: bool | None = True,
        text: str = 'say "hi"\\\n',
        *,
        eps: float = 1e-5,
        pads: list[int] = [0, -1],  # noqa: B006 - a definition's default is never changed
    ) -> Float[Tensor, "B N"]: ...

    signature = read(f)
    assert [parameter.kind for parameter in signature.parameters] == [
        Kind.TENSOR,
        Kind.OPTIONAL_TENSOR,
        Kind.TENSOR_LIST,
        Kind.INT,
        Kind.FLOAT,
        Kind.BOOL,
        Kind.STR,
        Kind.INT_LIST,
        Kind.FLOAT_LIST,
        Kind.INT_LIST,
        Kind.OPTIONAL_INT,
        Kind.OPTIONAL_FLOAT,
        Kind.OPTIONAL_BOOL,
        Kind.STR,
        Kind.FLOAT,
        Kind.INT_LIST,
    ]
    arguments = torch._C.parse_schema(signature.schema).arguments
    assert [argument.name for argument in arguments] == [parameter.name for parameter in signature.parameters]
    assert [argument.default_value for argument in arguments[10:]] == [None, 1.0, True, 'say "hi"\\\n', 1e-5, [0, -1]]
    assert isinstance(arguments[11].default_value, float)
    assert [argument.kwarg_only for argument in arguments[-3:]] == [False, True, True]


def test_outputs_are_named_typed_and_marked() -> None:
    def f(x: Vector) -> tuple[Vector, Int64[Tensor, "N"], Vector]: ...

    signature = read(f, outputs=("value", "index", "scratch"), saved=frozenset({"scratch"}))
    assert [output.name for output in signature.outputs] == ["value", "index", "scratch"]
    assert [output.differentiable for output in signature.outputs] == [True, False, False]
    assert [output.name for output in signature.visible_outputs] == ["value", "index"]
    assert [output.name for output in read(f).outputs] == ["out0", "out1", "out2"]
    assert signature.schema == "f(Tensor x) -> (Tensor, Tensor, Tensor)"


def test_mutation_is_in_the_schema() -> None:
    def f(x: Vector, y: Vector, state: Vector | None = None) -> None: ...

    signature = read(f, mutates=frozenset({"x", "state"}))
    assert signature.schema == "f(Tensor(a!) x, Tensor y, Tensor(b!)? state=None) -> ()"
    assert str(torch._C.parse_schema(signature.schema).arguments[0].alias_info.is_write) == "True"
    assert [parameter.differentiable for parameter in signature.parameters] == [False, True, False]


def test_generic_and_pinned_elements() -> None:
    def f(x: Vector, boxes: Float32[Tensor, "R 4"], index: Int[Tensor, "R"]) -> Vector: ...

    signature = read(f, dtypes={"T": ("bfloat16", "float32", "float32")})
    assert signature.letters == ("T", "I")
    assert signature.dtypes == {"T": ("bfloat16", "float32"), "I": ("int32", "int64")}
    assert [tuple(dtype.name for dtype in choice) for choice in signature.combinations()] == [
        ("bfloat16", "int32"),
        ("bfloat16", "int64"),
        ("float32", "int32"),
        ("float32", "int64"),
    ]


def test_elementwise_inputs_that_are_always_there_come_first() -> None:
    def f(bias: Float[Tensor, "*n"] | None, x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]: ...

    signature = read(f)
    assert signature.group == "n"
    assert [parameter.name for parameter in signature.elementwise] == ["x", "bias"]


def test_data_dependent_sizes_stand_in_no_input() -> None:
    def f(x: Float[Tensor, "N"], most: int) -> Float[Tensor, "K most"]: ...

    assert read(f).data_dependent == {"K"}


class Mode(Enum):
    SUM = "sum"
    MEAN = "mean"


class Side(Enum):
    LEFT = 0
    RIGHT = 1


def no_annotation(x: Vector, y) -> Vector: ...
def var_positional(*x: Vector) -> Vector: ...
def var_keyword(x: Vector, **rest: int) -> Vector: ...
def positional_only(x: Vector, /) -> Vector: ...
def unknown_name(x: Vektor) -> Vector: ...  # noqa: F821
def failing_annotation(x: torch.Tensr) -> Vector: ...
def dictionary(x: Vector, d: dict[str, int]) -> Vector: ...
def plain_tensor(x: Tensor) -> Vector: ...
def optional_list(x: Vector, y: list[int] | None) -> Vector: ...
def optional_str(x: Vector, y: str | None) -> Vector: ...
def union(x: Vector, y: int | float) -> Vector: ...
def list_of_str(x: Vector, y: list[str]) -> Vector: ...
def list_of_bool(x: Vector, y: list[bool]) -> Vector: ...
def list_with_absent(x: Vector, y: list[Vector | None]) -> Vector: ...
def enum_of_str(x: Vector, y: Mode) -> Vector: ...
def enum_of_int(x: Vector, y: Side) -> Vector: ...
def dtype(x: Vector, y: torch.dtype) -> Vector: ...
def variadic_list(x: Vector, y: list[Float[Tensor, "*b N"]]) -> Vector: ...
def numpy_array(x: Float[np.ndarray, "N"]) -> Vector: ...
def complex_tensor(x: Complex[Tensor, "N"]) -> Vector: ...
def no_tensor(n: int) -> Vector: ...
def only_optional(x: Vector | None) -> Vector: ...
def no_return(x: Vector): ...
def returns_nothing(x: Vector) -> None: ...
def returns_number(x: Vector) -> float: ...
def returns_list(x: Vector) -> list[Vector]: ...
def mixed_generics(x: Vector, y: Real[Tensor, "N"]) -> Vector: ...
def orphan(x: Int[Tensor, "N"]) -> Vector: ...
def orphan_optional(x: Int[Tensor, "N"], y: Vector | None) -> Vector: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_annotation, "the argument y has no annotation; it can be a jaxtyping annotation"),
        (var_positional, "the argument x is variable in number, which a schema cannot express; take a list instead"),
        (var_keyword, "the argument rest is variable in number, which a schema cannot express; name each one instead"),
        (positional_only, "the argument x is positional-only"),
        (unknown_name, "an annotation cannot be evaluated: name 'Vektor' is not defined"),
        (failing_annotation, "an annotation cannot be evaluated: module 'torch' has no attribute 'Tensr'"),
        (dictionary, "the argument d is annotated dict[str, int], which an operator cannot take"),
        (plain_tensor, "the argument x is annotated Tensor, which an operator cannot take; write its element type and"),
        (
            optional_list,
            "is annotated list[int] | None, which an operator cannot take; take the list itself, and let an",
        ),
        (
            optional_str,
            "the argument y is annotated str | None, which an operator cannot take; take a str, and let '' ",
        ),
        (union, "the argument y is annotated int | float, which an operator cannot take; take a float, which an int"),
        (list_of_str, "the argument y is annotated list[str], which an operator cannot take; it can be a jaxtyping"),
        (list_of_bool, "list[bool], which an operator cannot take; take a list[int] of zeros and ones"),
        (list_with_absent, "which an operator cannot take; a list's elements are all given: leave absent ones out"),
        (
            enum_of_str,
            "is annotated Mode, which an operator cannot take; take its values by name: Literal['sum', 'mean']",
        ),
        (
            enum_of_int,
            "is annotated Side, which an operator cannot take; take its values by name: Literal['LEFT', 'RIG",
        ),
        (
            dtype,
            "is annotated dtype, which an operator cannot take; take a name, such as Literal['float16', 'float32']",
        ),
        (variadic_list, "a list's tensors cannot have the variadic dimension in '*b N'"),
        (numpy_array, 'the argument x is annotated Float[ndarray, "N"]; only torch.Tensor'),
        (complex_tensor, 'the argument x is annotated Complex[Tensor, "N"]; opsmith\'s element types are Float'),
        (no_tensor, "no argument is a required tensor"),
        (only_optional, "no argument is a required tensor"),
        (no_return, "the return annotation is missing"),
        (returns_nothing, "it returns nothing and mutates nothing; declare mutates="),
        (returns_number, "the output out is annotated float; an output is a tensor"),
        (returns_list, "an output is a tensor"),
        (mixed_generics, "share the element type T but allow different types"),
        (orphan, "no required input determines the element type T; pin it"),
        (orphan_optional, "no required input determines the element type T; pin it"),
    ],
)
def test_an_impossible_definition_is_refused_with_the_reason(function: Callable[..., Any], words: str) -> None:
    message = refusal(function)
    assert words in message
    assert message.startswith(f"{function.__name__}: ")


@pytest.mark.parametrize(
    ("annotation", "default", "words"),
    [
        (int, 1.5, "is int and cannot have the default 1.5"),
        (int, True, "is int and cannot have the default True"),
        (float, "1", "is float and cannot have the default '1'"),
        (float, float("inf"), "is float and cannot have the default inf; use the default None"),
        (float | None, float("nan"), "is float? and cannot have the default nan; use the default None"),
        (bool, 1, "is bool and cannot have the default 1"),
        (str, None, "is str and cannot have the default None; take a str, and let '' stand for None"),
        (int, None, "is int and cannot have the default None; annotate it int | None"),
        (Literal["a", "b"], None, "is str and cannot have the default None"),
        (
            list[int],
            None,
            "is int[] and cannot have the default None; take the list itself, and let an empty one stand",
        ),
        (list[int], [1, 2.0], "is int[] and cannot have the default [1, 2.0]"),
        (list[int], 3, "is int[] and cannot have the default 3"),
        (list[float], ["a"], "is float[] and cannot have the default ['a']"),
        (int | None, "x", "is int? and cannot have the default 'x'"),
        (bool | None, 0, "is bool? and cannot have the default 0"),
        (Vector, None, 'is Tensor and cannot have the default None; annotate it Float[Tensor, "N"] | None'),
        (Vector | None, 0, "is Tensor? and cannot have the default 0"),
        (list[Vector], [], "is Tensor[] and cannot have the default []"),
        (int, 1 << 63, "cannot have the default 9223372036854775808: an int of an operator has 64 bits"),
        (int | None, -(1 << 63) - 1, "cannot have the default -9223372036854775809: an int of an operator has 64 bits"),
        (list[int], [0, 1 << 63], "cannot have the default 9223372036854775808: an int of an operator has 64 bits"),
        pytest.param(
            int, 10**5000, "cannot have the default that large: an int of an operator has 64 bits", id="5000 digits"
        ),
        (float, 10**400, "is float and cannot have the default 1000000"),
        (float, 5e-324, "cannot have the default 5e-324: PyTorch reads no number below 2.23e-308; use 0.0"),
        (list[float], [1.0, -1e-310], "cannot have the default -1e-310: PyTorch reads no number below 2.23e-308"),
        (str, "a\0b", r"cannot have the default 'a\x00b': PyTorch ends a text at its first NUL"),
        (str, "\ud800", r"cannot have the default '\ud800': a lone surrogate is not text"),
    ],
)
def test_a_default_must_be_of_its_argument_s_type(annotation: Any, default: Any, words: str) -> None:
    def f(x: Vector, y=default) -> Vector: ...

    f.__annotations__["y"] = annotation
    assert f"f: the argument y {words}" in refusal(f)


def one(x: Vector, n: int) -> Vector: ...
def two(x: Vector) -> tuple[Vector, Vector]: ...
def lists(x: Vector, y: list[Vector]) -> None: ...
def images(x: Float[Tensor, "B C H W"], v: Vector) -> Float[Tensor, "B C"]: ...
def batched(x: Float[Tensor, "*b N"]) -> Float[Tensor, "*b N"]: ...


@pytest.mark.parametrize(
    ("function", "choices", "words"),
    [
        (two, {"outputs": ("y",)}, "outputs= has 1 names, but 2 of the results are annotated"),
        (
            two,
            {"outputs": ("y", "y")},
            "the output name 'y' is already that of another output; choose names with outputs=",
        ),
        (two, {"outputs": ("y", "x")}, "the output name 'x' is already that of an argument"),
        (two, {"outputs": ("y", "2z")}, "the output name '2z' is not an identifier"),
        (two, {"saved": {"z"}}, "saved= names z; there is out0, out1"),
        (one, {"saved": {"out"}}, "every output is saved, so callers would get nothing"),
        (one, {"mutates": {"y"}}, "mutates= names y; there is x"),
        (one, {"mutates": {"n"}}, "the argument n is declared as mutated but is not a tensor"),
        (lists, {"mutates": {"y"}}, "the argument y is a list, which cannot be declared as mutated"),
        (one, {"nondifferentiable": {"n"}}, "nondifferentiable= names n; there is out, x"),
        (one, {"contiguous": {"out"}}, "contiguous= names out; there is x"),
        (one, {"preserve_format": {"y": "x"}}, "preserve_format= names y; there is out"),
        (one, {"preserve_format": {"out": "n"}}, "preserve_format= takes the format from n, which is not a tensor"),
        (one, {"preserve_format": {"out": "z"}}, "preserve_format= takes the format from z, which is not a tensor"),
        (images, {"preserve_format": {"out": "x"}}, "preserve_format= needs equal ranks"),
        (batched, {"preserve_format": {"out": "x"}}, "preserve_format= needs equal ranks without variadic"),
        (one, {"dtypes": {"I": ("int32",)}}, "dtypes= sets I, but no tensor is generic in it"),
        (one, {"dtypes": {"T": ("int32",)}}, "dtypes= has int32, but the annotation allows float16, bfloat16"),
    ],
)
def test_a_choice_that_fits_nothing_is_refused(function: Any, choices: dict[str, Any], words: str) -> None:
    choices = {name: frozenset(value) if isinstance(value, set) else value for name, value in choices.items()}
    message = refusal(function, **choices)
    assert words in message
    assert message.startswith(f"{function.__name__}: ")
