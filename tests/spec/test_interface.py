"""One digest says whether a finished library still serves the definitions: what the binding depends on, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Definition, Kernel
from opsmith.spec.dtypes import DTYPES, element_of_jaxtyping, from_torch
from opsmith.spec.interface import interface_digest

KERNEL = Kernel("view", (Path("/project/f.cpp"),), "f")


def f(x: Float[Tensor, "B C H W"], n: int = 1) -> Float[Tensor, "B C H W"]: ...


def define(function: Callable[..., Any] = f, **choices: Any) -> Definition:
    signature = read_signature(function, Choices(**choices))
    return Definition("shop", signature, {"cpu": KERNEL}, function, "shop.ops", Path("/project/ops.py"), 3)


def other_shape(x: Float[Tensor, "B C H H"], n: int = 1) -> Float[Tensor, "B C H H"]: ...
def other_element(x: Float32[Tensor, "B C H W"], n: int = 1) -> Float32[Tensor, "B C H W"]: ...
def other_output(x: Float[Tensor, "B C H W"], n: int = 1) -> Int64[Tensor, "B C H W"]: ...
def other_default(x: Float[Tensor, "B C H W"], n: int = 2) -> Float[Tensor, "B C H W"]: ...
def other_argument(x: Float[Tensor, "B C H W"], m: int = 1) -> Float[Tensor, "B C H W"]: ...


for function in (other_shape, other_element, other_output, other_default, other_argument):
    function.__name__ = "f"

CHANGED = {
    "shape": define(other_shape),
    "element type": define(other_element),
    "output": define(other_output),
    "default": define(other_default),
    "argument": define(other_argument),
    "output's name": define(outputs=("y",)),
    "element types": define(dtypes={"T": ("float32",)}),
    "contiguous": define(contiguous=frozenset({"x"})),
    "memory format": define(preserve_format={"out": "x"}),
    "mutation": define(mutates=frozenset({"x"})),
    "namespace": replace(define(), namespace="mall"),
    "entry": replace(define(), kernels={"cpu": replace(KERNEL, entry="g")}),
    "style": replace(define(), kernels={"cpu": replace(KERNEL, style="native")}),
    "devices": replace(define(), kernels={"cpu": KERNEL, "cuda": KERNEL}),
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_the_binding_depends_on_changes_the_digest(what: str) -> None:
    assert interface_digest([CHANGED[what]]) != interface_digest([define()])


def test_what_it_does_not_depend_on_leaves_it() -> None:
    moved = replace(define(), file=Path("/elsewhere/ops.py"), line=99, doc="New words.", body=other_shape)
    frozen = define(nondifferentiable=frozenset({"x"}))
    recompiled = replace(define(), kernels={"cpu": replace(KERNEL, sources=(Path("/elsewhere/g.cpp"),))})
    assert {interface_digest([definition]) for definition in (moved, frozen, recompiled)} == {
        interface_digest([define()])
    }


def test_the_order_of_definitions_does_not_matter() -> None:
    second = define(other_shape)
    assert interface_digest([define(), second]) == interface_digest([second, define()])


def test_element_types_are_torch_s() -> None:
    for name, dtype in DTYPES.items():
        assert dtype.torch is getattr(torch, name)
        assert from_torch(dtype.torch) is dtype
    assert from_torch(torch.complex64) is None


@pytest.mark.parametrize(
    ("annotation", "found"), [("BFloat16", "bfloat16"), ("Bool", "bool"), ("UInt8", "uint8"), ("Int16", "int16")]
)
def test_pinned_annotations(annotation: str, found: str) -> None:
    assert element_of_jaxtyping(annotation) is DTYPES[found]


@pytest.mark.parametrize("annotation", ["Complex", "Float8e4m3fn", "Shaped", "Key", "UInt32"])
def test_annotations_without_an_element_type(annotation: str) -> None:
    assert element_of_jaxtyping(annotation) is None
