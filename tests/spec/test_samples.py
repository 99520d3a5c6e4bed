"""Which dimensions an operator works on sample by sample, and what `batch=` is refused for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jaxtyping import Float
from torch import Tensor

from opsmith.errors import DefinitionError
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Batch, Definition, Kernel
from opsmith.spec.samples import Samples, check_batch, find_samples

Rows = Float[Tensor, "B N"]
GROUP, BATCH = Samples("n", is_group=True), Samples("B", is_group=False)


def define(function: Callable[..., Any], batch: Batch = None, forward: Definition | None = None, **choices: Any):
    signature = read_signature(function, Choices(**choices))
    check_batch(signature, batch, is_backward=forward is not None)
    return Definition("shop", signature, {}, function, "shop", Path("/shop.py"), 1, batch=batch, forward=forward)


def refusal(function: Callable[..., Any], batch: Any) -> str:
    with pytest.raises(DefinitionError) as error:
        define(function, batch)
    return str(error.value)


def test_a_group_of_every_output_is_one():
    def f(x: Float[Tensor, "*n"], row: Float[Tensor, "N"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n 3"]]: ...
    def g(x: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, ""]]: ...
    def h(x: Float[Tensor, "*n"]) -> None: ...

    assert find_samples(define(f)) == (GROUP,)
    assert find_samples(define(f, False)) == ()
    assert find_samples(define(g)) == ()
    assert find_samples(define(h, mutates=frozenset({"x"}))) == (GROUP,)


def test_what_is_written_to_must_have_the_group():
    def f(x: Float[Tensor, "*n"], count: Float[Tensor, "1"]) -> Float[Tensor, "*n"]: ...

    assert find_samples(define(f, mutates=frozenset({"count"}))) == ()


def test_an_integer_may_name_a_dimension_except_to_a_view_kernel():
    def f(x: Float[Tensor, "*n"], dim: int) -> Float[Tensor, "*n"]: ...

    plain = define(f)
    view, native = (Kernel(style, (Path("/f.cpp"),), "f") for style in ("view", "native"))
    assert find_samples(plain) == ()
    assert find_samples(replace(plain, kernels={"cpu": native})) == ()
    assert find_samples(replace(plain, kernels={"cpu": view, "cuda": native})) == ()
    assert find_samples(replace(plain, kernels={"cpu": view})) == (GROUP,)


def test_a_batch_stands_behind_a_group():
    def f(x: Float[Tensor, "*n B"]) -> Float[Tensor, "B *n"]: ...

    assert find_samples(define(f, "B")) == (GROUP, BATCH)


def test_a_backward_has_what_its_forward_has_and_nothing_of_its_own():
    def mean(x: Float[Tensor, "*n"]) -> Float[Tensor, ""]: ...
    def mean_backward(grad_out: Float[Tensor, ""], x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]: ...
    def linear(x: Rows, weight: Float[Tensor, "M N"]) -> Float[Tensor, "B M"]: ...
    def linear_backward(grad_out: Float[Tensor, "B M"], x: Rows) -> tuple[Rows, Float[Tensor, "M N"]]: ...
    def merged_backward(grad_out: Float[Tensor, "B M"], x: Float[Tensor, "2*B N"]) -> Rows: ...

    assert find_samples(define(mean_backward)) == (GROUP,)
    assert find_samples(define(mean_backward, forward=define(mean))) == ()
    assert find_samples(define(linear_backward, forward=define(linear, "B"))) == (BATCH,)
    assert find_samples(define(linear_backward, forward=define(linear))) == ()
    assert find_samples(define(linear_backward, "B", forward=define(linear))) == (BATCH,)
    assert find_samples(define(merged_backward, forward=define(linear, "B"))) == ()


def test_what_no_batch_can_be():
    def f(x: Rows, y: Float[Tensor, "2*N C C"], size: int) -> Float[Tensor, "B size"]: ...
    def g(x: Rows) -> tuple[Rows, Float[Tensor, "N"]]: ...

    assert "f: batch= names Z, which is a dimension of no input" in refusal(f, "Z")
    assert 'f: batch= names N, which is part of the size 2*N in Float[Tensor, "2*N C C"]' in refusal(f, "N")
    assert 'f: batch= names C, which occurs twice in Float[Tensor, "2*N C C"]' in refusal(f, "C")
    assert "f: batch= names size, which is an int argument" in refusal(f, "size")
    assert 'g: batch= names B, but the output out1 has no such dimension (Float[Tensor, "N"])' in refusal(g, "B")
    assert "f: batch= is 3; give the name of a dimension, a tuple of names, False or None" in refusal(f, 3)
    assert "f: batch= names N, which is part of the size 2*N" in refusal(f, ("B", "N"))


def test_samples_may_be_independent_along_several_dimensions():
    def image(x: Float[Tensor, "N C H"], taps: Float[Tensor, "K"]) -> Float[Tensor, "N C H"]: ...

    expected = (Samples("N", is_group=False), Samples("C", is_group=False))
    assert find_samples(define(image, ("N", "C"))) == expected
    assert find_samples(define(image, forward=define(image, ("N", "C")))) == expected
