"""A bool argument can say that an output is not needed: a gradient, or what a forward keeps for its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jaxtyping import Float
from torch import Tensor

from opsmith.errors import DefinitionError
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.gradient import Argument, wire_backward
from opsmith.spec.signature import Signature
from opsmith.spec.skippable import mark_unneeded_gradients, mark_unneeded_saved

Matrix = Float[Tensor, "B N"]


def forward(x: Matrix, w: Float[Tensor, "N"] | None) -> Matrix: ...


FORWARD = read_signature(forward, Choices(outputs=("y",)))


def read(function: Callable[..., Any], *outputs: str) -> Signature:
    return read_signature(function, Choices(outputs=outputs))


def read_forward(function: Callable[..., Any]) -> Signature:
    return read_signature(function, Choices(outputs=("y", "norm"), saved=frozenset({"norm"})))


def test_a_gradient_may_be_absent_and_a_flag_tells_what_is_needed() -> None:
    def backward(
        x: Matrix, grad_y: Matrix | None, needs_grad_w: bool, needs_grad_x: bool
    ) -> tuple[Matrix, Float[Tensor, "N"]]: ...

    signature = read(backward, "grad_x", "grad_w")
    wiring = wire_backward(FORWARD, signature)
    assert wiring.arguments == (
        Argument("input", 0),
        Argument("gradient", 0),
        Argument("needs", 1),
        Argument("needs", 0),
    )
    marked = mark_unneeded_gradients(signature, wiring)
    assert [output.needed_by for output in marked.outputs] == ["needs_grad_x", "needs_grad_w"]
    assert marked.schema == signature.schema


def test_an_output_without_a_flag_is_always_needed() -> None:
    def backward(x: Matrix, grad_y: Matrix, needs_grad_w: bool) -> tuple[Matrix, Float[Tensor, "N"]]: ...

    signature = read(backward, "grad_x", "grad_w")
    marked = mark_unneeded_gradients(signature, wire_backward(FORWARD, signature))
    assert [output.needed_by for output in marked.outputs] == [None, "needs_grad_w"]


def test_an_input_that_is_called_like_a_flag_is_an_input() -> None:
    def asking(x: Matrix, needs_grad_x: bool) -> Matrix: ...
    def backward(grad_out: Matrix, needs_grad_x: bool) -> Matrix: ...

    signature = read(backward, "grad_x")
    wiring = wire_backward(read_signature(asking, Choices()), signature)
    assert wiring.arguments == (Argument("gradient", 0), Argument("input", 1))
    assert mark_unneeded_gradients(signature, wiring).outputs[0].needed_by is None


def test_a_gradient_whose_size_the_kernel_alone_knows_cannot_be_left_out() -> None:
    def forward(x: Matrix, w: Float[Tensor, "K"]) -> Matrix: ...
    def backward(grad_out: Matrix, needs_grad_w: bool) -> tuple[Matrix, Float[Tensor, "K"]]: ...

    signature = read(backward, "grad_x", "grad_w")
    wiring = wire_backward(read_signature(forward, Choices()), signature)
    with pytest.raises(DefinitionError, match="no input gives the size K of grad_w, which is left out where") as error:
        mark_unneeded_gradients(signature, wiring)
    assert "Take the input w too, or an argument `K: int`" in str(error.value)


def test_a_saved_output_may_have_a_flag() -> None:
    def forward(x: Matrix, scale: float, needs_norm: bool = False) -> tuple[Matrix, Float[Tensor, "B"]]: ...

    signature = read_forward(forward)
    marked = mark_unneeded_saved(signature)
    assert [output.needed_by for output in marked.outputs] == [None, "needs_norm"]
    assert marked.schema == signature.schema


def test_a_flag_of_another_kind_is_an_argument_like_any_other() -> None:
    def forward(x: Matrix, needs_y: int = 0) -> tuple[Matrix, Float[Tensor, "B"]]: ...

    assert [output.needed_by for output in mark_unneeded_saved(read_forward(forward)).outputs] == [None, None]


def seen(x: Matrix, needs_y: bool = False) -> tuple[Matrix, Float[Tensor, "B"]]: ...
def whole(x: Matrix, needs_norm: int = 0) -> tuple[Matrix, Float[Tensor, "B"]]: ...
def asked_for(x: Matrix, needs_norm: bool) -> tuple[Matrix, Float[Tensor, "B"]]: ...
def wanted(x: Matrix, needs_norm: bool = True) -> tuple[Matrix, Float[Tensor, "B"]]: ...
def unknown(x: Matrix, needs_norm: bool = False) -> tuple[Matrix, Float[Tensor, "K"]]: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (whole, "needs_norm says whether the saved output norm is needed, but is int: annotate it bool"),
        (asked_for, "only calls with a gradient need it, so give it the default False"),
        (wanted, "only calls with a gradient need it, so give it the default False"),
        (
            seen,
            "needs_y is for the output y, which is not in saved=: only what is kept for the backward can be left out",
        ),
        (unknown, "no input gives the size K of norm, which is left out where needs_norm is False. Take an argument"),
    ],
)
def test_a_flag_that_does_not_fit(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        mark_unneeded_saved(read_forward(function))
