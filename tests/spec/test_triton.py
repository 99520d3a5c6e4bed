"""A Triton kernel's parameters get their values by name; one that does not fit is refused with the prototype."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith
from opsmith.codegen.python_source import read_triton_function
from opsmith.errors import CompileError, DefinitionError, SignatureError
from opsmith.runtime.define import define
from opsmith.runtime.options import OpOptions
from opsmith.spec.definition import Definition
from opsmith.spec.triton import KernelArgument, match_arguments, triton_prototype


def gather(
    x: Float[Tensor, "B 3*S"],
    at: Int64[Tensor, "B"],
    weight: Float[Tensor, "S"] | None,
    factor: float,
    k: int,
    mode: Literal["keep", "drop"],
    is_last: bool,
) -> Float[Tensor, "B S"]:
    """Serves to give a signature."""
    return x[:, : x.shape[1] // 3]


@pytest.fixture
def defined(tmp_path: Path) -> Callable[..., Definition]:
    def declare(parameters: str, body: Callable[..., Any] = gather, grid: str = "B", **options: Any) -> Definition:
        (tmp_path / "kernel.py").write_text(f"@triton.jit\ndef kernel({parameters}):\n    pass\n")
        found = opsmith.triton(str(tmp_path / "kernel.py:kernel"), grid=grid, BLOCK=64)
        return define(body, OpOptions(cuda=found, outputs="y", namespace="matching", **options))

    return declare


_ALL = "x, at, weight, factor, k, mode: tl.constexpr, is_last, y, BLOCK: tl.constexpr"


def _match(definition: Definition) -> dict[str, KernelArgument]:
    return {argument.name: argument for argument in match_arguments(definition, read_triton_function(definition))}


def test_each_parameter_gets_what_its_name_says(defined: Callable[..., Definition]) -> None:
    definition = defined(f"{_ALL}, S, x_stride_0, x_stride_1, x_size_1, y_numel")
    found = _match(definition)
    assert {name: argument.role for name, argument in found.items()} == {
        "x": "tensor",
        "at": "tensor",
        "weight": "tensor",
        "y": "tensor",
        "factor": "number",
        "k": "quantity",
        "is_last": "flag",
        "mode": "choice",
        "BLOCK": "constant",
        "S": "quantity",
        "x_stride_0": "quantity",
        "x_stride_1": "quantity",
        "x_size_1": "quantity",
        "y_numel": "quantity",
    }
    assert found["mode"].values == ("keep", "drop")
    assert found["weight"].values == (False, True)
    assert found["x"].values == ()
    strides = [found[f"x_stride_{axis}"].quantity for axis in (0, 1)]
    assert [(each.is_inner, each.is_unit) for each in strides if each] == [(True, False), (True, True)]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (f"{_ALL}, other", "`other` is no tensor, size, stride or number"),
        (_ALL.replace("y, ", ""), "the kernel does not take `y`"),
        (_ALL.replace("factor, ", ""), "the kernel does not take `factor`"),
        (_ALL.replace(", BLOCK: tl.constexpr", ""), "the launch gives the constant `BLOCK`"),
        (_ALL.replace("BLOCK: tl.constexpr", "BLOCK"), "has to annotate it `tl.constexpr`"),
        (f"{_ALL}, S: tl.constexpr", '"when": "S == 64"'),
        (_ALL.replace("k,", "k: tl.constexpr,"), "`k` has any value, and as `tl.constexpr`"),
        (_ALL.replace("mode: tl.constexpr", "mode"), "`mode` is text, which a kernel takes as `tl.constexpr`"),
        (_ALL.replace("x, at", "x: tl.constexpr, at"), "`x` is a tensor, a pointer"),
        (f"{_ALL}, x_stride_1", "takes `x_stride_1` but not the strides before it"),
    ],
)
def test_a_kernel_that_does_not_fit(defined: Callable[..., Definition], parameters: str, words: str) -> None:
    definition = defined(parameters)
    with pytest.raises(SignatureError) as raised:
        _match(definition)
    text = str(raised.value)
    assert words in text
    assert f"    the definition offers  {triton_prototype(definition)}\n" in text
    assert f"    the file has           def kernel({parameters})\n" in text
    assert "kernel.py:2: the kernel `kernel` does not match" in text


def test_prototype_has_everything_that_a_kernel_may_take(defined: Callable[..., Definition]) -> None:
    assert triton_prototype(defined(_ALL)) == (
        "def kernel(x, at, weight, factor, mode: tl.constexpr, is_last, y, k, B, S, x_stride_0, x_stride_1, at_stride_0, "
        "weight_stride_0, y_stride_0, y_stride_1, BLOCK: tl.constexpr)"
    )


def test_grid_of_an_unknown_number(defined: Callable[..., Definition]) -> None:
    with pytest.raises(SignatureError, match="the launch computes 'Z', and `Z` is no number of the definition"):
        _match(defined(_ALL, grid="Z"))


def listed(xs: list[Float[Tensor, "N"]], text: str) -> Float[Tensor, "N"]:
    return xs[0]


def test_arguments_that_triton_has_no_type_for(defined: Callable[..., Definition]) -> None:
    definition = defined("xs, text, y, BLOCK: tl.constexpr", listed, grid="N")
    with pytest.raises(SignatureError, match=r"`xs` is Tensor\[\], and a Triton kernel takes tensors, ints, floats"):
        _match(definition)


def scaled(x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C H W"]:
    return x * 2


def test_a_memory_format_needs_its_strides(defined: Callable[..., Definition]) -> None:
    definition = defined("x, y, BLOCK: tl.constexpr", scaled, grid="N", preserve_format={"y": "x"})
    with pytest.raises(SignatureError, match="`y` has the memory format of `x`, so the kernel has to take all"):
        _match(definition)


def test_files_without_the_kernel(defined: Callable[..., Definition], tmp_path: Path) -> None:
    definition = defined(_ALL)
    (tmp_path / "kernel.py").write_text("def kernel(x): pass\n")
    with pytest.raises(SignatureError, match=r"does not decorate with @triton\.jit the function `kernel`"):
        _match(definition)
    (tmp_path / "kernel.py").write_text("other = 1\n")
    with pytest.raises(SignatureError, match="it has no function `kernel`"):
        _match(definition)
    (tmp_path / "kernel.py").write_text("def kernel(x:\n")
    with pytest.raises(CompileError, match=r"kernel\.py:1: the kernel's file is not Python"):
        _match(definition)


@pytest.mark.parametrize("given", ["kernel.py:kernel", "kernel.py"])
def test_a_file_name_alone_has_no_launch(given: str) -> None:
    with pytest.raises(DefinitionError, match=r"is a Triton kernel, which needs a launch: opsmith\.triton"):
        define(scaled, OpOptions(cuda=given, namespace="matching"))


def test_a_triton_kernel_is_for_the_gpu() -> None:
    with pytest.raises(DefinitionError, match="TRITON_INTERPRET=1 runs it on the CPU"):
        define(scaled, OpOptions(cpu=opsmith.triton("kernel.py:kernel", grid=1), namespace="matching"))
