"""A CUDA kernel's parameters get their values by name; one that does not fit is refused with the prototype."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

import opsmith
from opsmith.codegen.cuda_source import read_cuda_function
from opsmith.codegen.cuda_variants import find_cuda_variants
from opsmith.codegen.prototype import skeleton
from opsmith.errors import CompileError, DefinitionError, SignatureError
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.cuda import cuda_prototype, match_cuda_arguments
from opsmith.spec.cuda_function import find_cuda_function
from opsmith.spec.definition import Definition
from opsmith.spec.kernel_arguments import KernelArgument


def gather(
    x: Float[Tensor, "B 3*S"],
    at: Int64[Tensor, "B"],
    weight: Float[Tensor, "S"] | None,
    factor: float,
    k: int,
    mode: Literal[1, 2],
    is_last: bool,
) -> Float[Tensor, "B S"]:
    """Serves to give a signature."""
    return x[:, : x.shape[1] // 3]


@pytest.fixture
def defined(tmp_path: Path) -> Callable[..., Definition]:
    def declare(
        template: str,
        parameters: str,
        body: Callable[..., Any] = gather,
        grid: str = "B",
        shared: str = "4 * BLOCK",
        **options: Any,
    ) -> Definition:
        head = f"template <{template}> " if template else ""
        (tmp_path / "kernel.cu").write_text(f"\n{head}__global__ void kernel({parameters}) {{}}\n")
        file = str(tmp_path / "kernel.cu:kernel")
        found = opsmith.kernel(file, grid=grid, block="BLOCK", shared=shared, BLOCK=64)
        return define(body, OpOptions(cuda=found, outputs="y", namespace="matching_cuda", **options))

    return declare


_TEMPLATE = "class T, int BLOCK, int mode"
_ALL = "const T* x, const int64_t* at, const T* weight, float factor, int k, bool is_last, T* y"


def _match(definition: Definition) -> dict[str, KernelArgument]:
    return {argument.name: argument for argument in match_cuda_arguments(definition, read_cuda_function(definition))}


def test_each_parameter_gets_what_its_name_says(defined: Callable[..., Definition]) -> None:
    parameters = f"{_ALL}, Index S, Index x_stride_0, int64_t x_stride_1, size_t y_numel".replace(
        "float factor", "compute_t<T> factor"
    )
    found = _match(defined(f"{_TEMPLATE}, class Index", parameters))
    assert {name: (argument.role, argument.type) for name, argument in found.items()} == {
        "BLOCK": ("constant", ""),
        "mode": ("choice", ""),
        "x": ("tensor", ""),
        "at": ("tensor", ""),
        "weight": ("tensor", ""),
        "y": ("tensor", ""),
        "factor": ("number", "compute_t<T>"),
        "k": ("quantity", "int32_t"),
        "is_last": ("flag", "bool"),
        "S": ("quantity", "int64_t"),  # the kernel reads as many bytes as its Index has
        "x_stride_0": ("quantity", "int64_t"),
        "x_stride_1": ("quantity", "int64_t"),
        "y_numel": ("quantity", "uint64_t"),
    }
    assert found["mode"].values == (1, 2)
    assert found["weight"].values == ()


@pytest.mark.parametrize(
    ("template", "parameters", "words"),
    [
        (_TEMPLATE, f"{_ALL}, int other", "`other` is no tensor, size, stride or number"),
        (_TEMPLATE, f"{_ALL}, int", "the parameter `int` has no name"),
        (_TEMPLATE, _ALL.replace(", T* y", ""), "the kernel does not take `y`"),
        (_TEMPLATE, _ALL.replace("float factor, ", ""), "the kernel does not take `factor`"),
        ("class T, int mode", _ALL, "the launch gives the constant `BLOCK`, which the kernel does not take"),
        ("class T, int mode", f"{_ALL}, int BLOCK", "so it is a template parameter: `template <..., int BLOCK>`"),
        (f"{_TEMPLATE}, int S", _ALL, '"when": "S == 64"'),
        (f"{_TEMPLATE}, int k", _ALL.replace("int k, ", ""), "`k` differs from call to call"),
        (f"{_TEMPLATE}, int other", _ALL, "the template parameter `int other` is no constant of the launch"),
        (f"{_TEMPLATE}, class U", _ALL, "`class U` is no type of the definition; there are T, Index"),
        (_TEMPLATE, f"{_ALL}, Index S", "`Index S` needs `class Index` among the template parameters"),
        (_TEMPLATE, f"{_ALL}, float S", "`float S` is an integer, which a kernel takes as int, int64_t"),
        (
            _TEMPLATE,
            _ALL.replace("float factor", "T factor"),
            "which a kernel takes as float or double or compute_t<T>",
        ),
        (_TEMPLATE, _ALL.replace("bool is_last", "int is_last"), "is a bool argument, which a kernel takes as bool"),
        (_TEMPLATE, _ALL.replace("const T* x", "T* x"), "is a tensor that is only read: the kernel takes `const T* x`"),
        (_TEMPLATE, _ALL.replace("T* y", "const T* y"), "is a tensor that is written: the kernel takes `T* y`"),
        (_TEMPLATE, _ALL.replace("int64_t*", "int*"), "the kernel takes `const int64_t* at`"),
        (_TEMPLATE, _ALL.replace("const T* x", "T x"), "`T x` is a tensor"),
        ("int BLOCK, int mode", _ALL.replace("T*", "float*"), "`const T* x`, with `template <class T>`"),
        (_TEMPLATE, f"{_ALL}, int x_stride_1", "takes `x_stride_1` but not the strides before it"),
    ],
)
def test_a_kernel_that_does_not_fit(
    defined: Callable[..., Definition], template: str, parameters: str, words: str
) -> None:
    definition = defined(template, parameters)
    with pytest.raises(SignatureError) as raised:
        _match(definition)
    text = str(raised.value)
    assert words in text
    assert f"    the definition offers  {cuda_prototype(definition)}\n" in text
    assert f"    the file has           template <{template}> __global__ void kernel({parameters})\n" in text
    assert "kernel.cu:2: the kernel `kernel` does not match" in text


def test_prototype_has_everything_that_a_kernel_may_take_and_fits(defined: Callable[..., Definition]) -> None:
    definition = defined(_TEMPLATE, _ALL)
    text = cuda_prototype(definition)
    assert text == (
        "template <class T, class Index, int BLOCK, int mode> __global__ void kernel(const T* x, const int64_t* at, "
        "const T* weight, compute_t<T> factor, bool is_last, T* y, Index k, Index B, Index S, Index x_stride_0, "
        "Index x_stride_1, Index at_stride_0, Index weight_stride_0, Index y_stride_0, Index y_stride_1)"
    )
    for source in (f"{text} {{}}", skeleton([definition], "cuda")):
        function = find_cuda_function(source, "kernel")
        assert function is not None
        assert function.declaration == text
        assert find_cuda_variants(definition, function).count == 4 * 2 * 2


def test_numbers_of_a_launch_that_there_are_not(defined: Callable[..., Definition]) -> None:
    with pytest.raises(SignatureError, match="the launch computes 'Z', and `Z` is no number of the definition"):
        _match(defined(_TEMPLATE, _ALL, grid="Z"))
    with pytest.raises(SignatureError, match=r"the launch computes '4 \* Z', and `Z` is no number"):
        _match(defined(_TEMPLATE, _ALL, shared="4 * Z"))


def pinned(x: Float32[Tensor, "N"], short: float) -> Float32[Tensor, "N"]:
    return x


def test_a_kernel_without_a_template(defined: Callable[..., Definition], tmp_path: Path) -> None:
    (tmp_path / "plain.cu").write_text("__global__ void plain(const float* x, float short_, float* y, int N) {}")
    found = opsmith.kernel(str(tmp_path / "plain.cu:plain"), grid="N", block=1)
    definition = define(pinned, OpOptions(cuda=found, outputs="y", namespace="matching_cuda"))
    # A name that is a word of C++ has an underscore behind it.
    assert [*_match(definition)] == ["x", "short", "y", "N"]
    assert "float short_" in cuda_prototype(definition)
    # The one type that a generic tensor may have can be spelled, too.
    definition = defined("int BLOCK, int mode", _ALL.replace("T*", "double*"), dtypes=(torch.float64,))
    assert _match(definition)["x"].role == "tensor"


def over_time(x: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    return x


def test_a_size_that_is_called_like_an_element_type(defined: Callable[..., Definition]) -> None:
    definition = defined("class T, int BLOCK", "const T* x, T* y, int x_size_1", over_time, grid="T")
    assert [*_match(definition)] == ["BLOCK", "x", "y", "x_size_1"]
    assert "T* y, Index B, Index x_size_1, Index x_stride_0" in cuda_prototype(definition)


def listed(xs: list[Float[Tensor, "N"]], text: str) -> Float[Tensor, "N"]:
    return xs[0]


def test_arguments_that_a_kernel_has_no_type_for(defined: Callable[..., Definition]) -> None:
    definition = defined("class T, int BLOCK", "const T* xs, int text, T* y", listed, grid="N")
    with pytest.raises(SignatureError, match=r"`xs` is Tensor\[\], and a CUDA kernel takes tensors, ints, floats"):
        _match(definition)


def test_files_without_the_kernel(defined: Callable[..., Definition], tmp_path: Path) -> None:
    definition = defined(_TEMPLATE, _ALL)
    (tmp_path / "kernel.cu").write_text("void kernel(int x) {}\n")
    with pytest.raises(SignatureError, match=r"it has no function `__global__ void kernel\(\.\.\.\)`"):
        _match(definition)
    (tmp_path / "kernel.cu").write_bytes(b"\xff")
    with pytest.raises(CompileError, match="is not text in UTF-8"):
        _match(definition)


def test_what_a_definition_refuses() -> None:
    def declare(**options: Any) -> None:
        define(pinned, OpOptions(namespace="matching_cuda", **options))

    with pytest.raises(DefinitionError, match=r"needs a launch: opsmith\.kernel\(\"kernel\.cu:kernel\""):
        declare(cuda="kernel.cu:kernel")
    with pytest.raises(DefinitionError, match=r"cpu= names the CUDA kernel kernel\.cu; give it as cuda="):
        declare(cpu=opsmith.kernel("kernel.cu:kernel", grid=1, block=1))
    with pytest.raises(DefinitionError, match=r"double is a keyword of C\+\+.*opsmith\.kernel\(\"kernel\.cu:double_\""):
        declare(cuda=opsmith.kernel("kernel.cu:double", grid=1, block=1))
