"""A backward is wired to its forward by names, and told which names there are where that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from opsmith.errors import DefinitionError
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.gradient import Argument, default_gradient_names, renamed, wire_backward
from opsmith.spec.signature import Signature

Matrix = Float[Tensor, "B N"]


def forward(
    x: Matrix, w: Float[Tensor, "N"] | None, index: Int64[Tensor, "B"], scale: float
) -> tuple[Matrix, Matrix]: ...


def lists(x: Matrix, levels: list[Matrix]) -> Matrix: ...
def writes(x: Matrix, y: Matrix) -> None: ...


FORWARD = read_signature(forward, Choices(outputs=("y", "saved_y"), saved=frozenset({"saved_y"})))
LISTS = read_signature(lists, Choices())
FROZEN = read_signature(forward, Choices(outputs=("y", "z"), nondifferentiable=frozenset({"x", "z"})))


def read(function: Callable[..., Any], *outputs: str) -> Signature:
    return read_signature(function, Choices(outputs=outputs))


def test_names_say_where_every_argument_comes_from() -> None:
    def backward(
        grad_y: Matrix, saved_y: Matrix, w: Float[Tensor, "N"] | None, scale: float
    ) -> tuple[Float[Tensor, "N"], Matrix]: ...

    wiring = wire_backward(FORWARD, read(backward, "grad_w", "grad_x"))
    assert wiring.arguments == (
        Argument("gradient", 0),
        Argument("output", 1),
        Argument("input", 1),
        Argument("input", 3),
    )
    assert wiring.inputs == (1, 0)


def test_a_backward_returns_the_gradients_of_all_differentiable_inputs_by_default() -> None:
    assert default_gradient_names(FORWARD) == ("grad_x", "grad_w")
    assert default_gradient_names(FROZEN) == ("grad_w",)


def scaled(
    x: Float[Tensor, "N"], w: Float[Tensor, "M"], box: Float[Tensor, "K 4"], t: Float32[Tensor, "*n"], up: int
) -> Float[Tensor, "N*up"]: ...


SCALED = read_signature(scaled, Choices(nondifferentiable=frozenset({"box", "t"})))
BOX = read_signature(scaled, Choices(nondifferentiable=frozenset({"x", "w", "t"})))
TYPED = read_signature(scaled, Choices(nondifferentiable=frozenset({"x", "w", "box"})))
N, M = Float[Tensor, "N"], Float[Tensor, "M"]


def swapped(grad_out: Float[Tensor, "K"], x: N, w: M) -> tuple[M, N]: ...
def swapped_names(grad_out: Float[Tensor, "K"], x: M, w: N) -> tuple[N, M]: ...
def too_few_dimensions(box: Float[Tensor, "K 4"]) -> Float[Tensor, "K"]: ...
def other_number(box: Float[Tensor, "K 4"]) -> Float[Tensor, "K 5"]: ...
def other_type(t: Float32[Tensor, "*n"]) -> Float64[Tensor, "*n"]: ...


@pytest.mark.parametrize(
    ("signature", "function", "words"),
    [
        (
            SCALED,
            swapped,
            'grad_x is annotated Float[Tensor, "M"], but x is Float[Tensor, "N"]: the size M of',
        ),
        (SCALED, swapped_names, "N of swapped_names is M of scaled, not N"),
        (
            BOX,
            too_few_dimensions,
            'grad_box is annotated Float[Tensor, "K"], but box is Float[Tensor, "K 4"]: they have 1',
        ),
        (BOX, other_number, "5 is not 4"),
        (TYPED, other_type, "they have no element type in common"),
    ],
)
def test_a_gradient_that_its_input_cannot_have_is_refused(signature: Signature, function: Any, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        wire_backward(signature, read_signature(function, Choices(), forward=signature))
    assert words in str(error.value)


def test_a_backward_has_names_of_its_own() -> None:
    def renamed_sizes(
        grad_out: Float[Tensor, "K"], x: Float[Tensor, "M"], w: Float[Tensor, "N"]
    ) -> tuple[Float[Tensor, "M"], Float[Tensor, "N"]]: ...

    def computed(grad_out: Float[Tensor, "K"], w: M, up: int) -> tuple[Float[Tensor, "K//up"], M]: ...
    def one_name(grad_out: Float[Tensor, "K"], x: N, w: N) -> tuple[N, N]: ...
    def grown(grad_out: Float[Tensor, "K"], w: M) -> tuple[Float[Tensor, "K"], M]: ...

    for function in (renamed_sizes, computed, one_name, grown):
        wire_backward(SCALED, read_signature(function, Choices(), forward=SCALED))


def test_a_number_of_gradients_that_does_not_fit_is_refused_by_the_inputs_names() -> None:
    def backward(grad_y: Matrix) -> Matrix: ...
    def three(grad_y: Matrix) -> tuple[Matrix, Matrix, Matrix]: ...

    with pytest.raises(DefinitionError) as too_few:
        read_signature(backward, Choices(), forward=FORWARD)
    assert str(too_few.value) == (
        "backward: it returns 1 gradient, but forward has 2 differentiable inputs (x, w), and what is missing would "
        "silently be zero. Return grad_x, grad_w in this order, or name the inputs without a gradient in "
        "nondifferentiable=, such as nondifferentiable=('w',) with forward"
    )
    with pytest.raises(DefinitionError, match="returns 3 gradients, but those of forward are 2: grad_x, grad_w"):
        read_signature(three, Choices(), forward=FORWARD)
    without = read_signature(forward, Choices(nondifferentiable=frozenset({"x", "w"})))
    with pytest.raises(DefinitionError, match="returns 1 gradient, but forward has no input whose gradient"):
        read_signature(backward, Choices(), forward=without)


def unknown_argument(grad_y: Matrix, z: Matrix) -> Matrix: ...
def gradient_of_saved(grad_saved_y: Matrix) -> Matrix: ...
def other_kind(grad_y: Matrix, w: Float[Tensor, "N"]) -> Matrix: ...
def other_element(x: Matrix, grad_y: Float32[Tensor, "B N"]) -> Matrix: ...


def other_input(grad_y: Matrix, index: Int64[Tensor, "B N"]) -> Matrix: ...
def other_rank(grad_y: Float[Tensor, "N"], x: Matrix) -> Matrix: ...
def optional_output(x: Matrix, y: Matrix | None) -> Matrix: ...
def list_of_gradients(x: Matrix, grad_y: list[Matrix]) -> Matrix: ...
def optional_of_other_rank(x: Matrix, grad_y: Float[Tensor, "N"] | None) -> Matrix: ...
def need_of_index(x: Matrix, needs_grad_index: bool) -> Matrix: ...
def need_as_number(x: Matrix, needs_grad_x: int) -> Matrix: ...
def need_of_absent(x: Matrix, needs_grad_w: bool) -> Matrix: ...
def number_for_output(x: Matrix, y: float) -> Matrix: ...
def fine(grad_y: Matrix) -> Matrix: ...
def fine_for_list(grad_out: Matrix) -> Matrix: ...


@pytest.mark.parametrize(
    ("signature", "function", "output", "words"),
    [
        (FORWARD, unknown_argument, "grad_x", "the parameter z is neither a gradient nor an input nor an output"),
        (FORWARD, unknown_argument, "grad_x", "There are grad_y, x, w, index, scale, y, saved_y, "),
        (FORWARD, unknown_argument, "grad_x", "saved_y, needs_grad_x, needs_grad_w"),
        (FORWARD, gradient_of_saved, "grad_x", "is the gradient of saved_y, which is declared without one"),
        (FORWARD, other_kind, "grad_x", "the parameter w is Tensor, but forward's input of that name is Tensor?"),
        (FORWARD, other_element, "grad_x", 'is Float32[Tensor, "B N"], but the forward\'s is Float[Tensor, "B N"]'),
        (FORWARD, other_rank, "grad_x", 'is Float[Tensor, "N"], but the forward\'s is Float[Tensor, "B N"]'),
        (FORWARD, other_input, "grad_x", 'is Int64[Tensor, "B N"], but the forward\'s is Int64[Tensor, "B"]'),
        (FORWARD, optional_output, "grad_x", 'the parameter y must be a tensor, Float[Tensor, "B N"]'),
        (FORWARD, list_of_gradients, "grad_x", 'the parameter grad_y must be a tensor, Float[Tensor, "B N"]'),
        (FORWARD, optional_of_other_rank, "grad_x", 'is Float[Tensor, "N"], but the forward\'s is'),
        (FORWARD, need_of_index, "grad_x", "asks for index, which is not a differentiable input of forward. There are"),
        (FORWARD, need_of_index, "grad_x", "There are needs_grad_x, needs_grad_w"),
        (FORWARD, need_as_number, "grad_x", "the parameter needs_grad_x is int, but it says whether the"),
        (FORWARD, need_of_absent, "grad_x", "the parameter needs_grad_w says whether grad_w is needed, but no output"),
        (FROZEN, need_as_number, "grad_w", "asks for x, which is not a differentiable input of forward. There are"),
        (FORWARD, number_for_output, "grad_x", 'the parameter y must be a tensor, Float[Tensor, "B N"]'),
        (FORWARD, fine, "grad_scale", "returns grad_scale, but scale is declared without a gradient"),
        (FORWARD, fine, "grad_index", "returns grad_index, but index is declared without a gradient"),
        (
            FORWARD,
            fine,
            "dx",
            "the output dx is not the gradient of an input of forward. A backward returns grad_x, grad_w",
        ),
        (FROZEN, fine, "grad_x", "returns grad_x, but x is declared without a gradient"),
        (
            FORWARD,
            fine,
            "grad_x",
            "it returns no gradient of w, which would then silently be zero. Return grad_w too, or",
        ),
        (LISTS, fine_for_list, "grad_x", "it returns no gradient of levels, which would then silently be zero"),
        (LISTS, fine_for_list, "grad_levels", "levels is a list of tensors"),
    ],
)
def test_names_that_fit_nothing_are_refused(signature: Signature, function: Any, output: str, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        wire_backward(signature, read(function, output))
    assert words in str(error.value)
    assert str(error.value).startswith(f"{function.__name__}: ")


def test_an_operator_that_writes_to_its_arguments_has_no_backward() -> None:
    signature = read_signature(writes, Choices(mutates=frozenset({"y"})))
    with pytest.raises(
        DefinitionError, match="writes writes to y, and an operator that writes to its arguments cannot have a"
    ):
        wire_backward(signature, read(fine_for_list, "grad_x"))


def summed(x: Matrix, skip: Matrix, w: Float[Tensor, "N"]) -> Matrix: ...


def test_a_gradient_that_is_passed_on_is_not_the_backward_s() -> None:
    signature = read_signature(summed, Choices(passes_gradient={"skip": "out"}))
    assert default_gradient_names(signature) == ("grad_x", "grad_w")

    def backward(grad_out: Matrix, x: Matrix, w: Float[Tensor, "N"]) -> tuple[Matrix, Float[Tensor, "N"]]: ...

    assert wire_backward(signature, read(backward, "grad_x", "grad_w")).inputs == (0, 2)

    def more(grad_out: Matrix, x: Matrix, w: Float[Tensor, "N"]) -> tuple[Matrix, Float[Tensor, "N"], Matrix]: ...

    with pytest.raises(DefinitionError, match="skip is declared to have the gradient of out as its own"):
        wire_backward(signature, read(more, "grad_x", "grad_w", "grad_skip"))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (Choices(passes_gradient={"w": "out"}), "but one is .*N.* and the other .*B N"),
        (Choices(passes_gradient={"skip": "nothing"}), "the outputs with a gradient are out"),
        (Choices(passes_gradient={"other": "out"}), "passes_gradient= names other"),
        (
            Choices(passes_gradient={"skip": "out"}, nondifferentiable=frozenset({"skip"})),
            "skip is not a tensor that has",
        ),
        (Choices(passes_gradient={"skip": "out"}, nondifferentiable=frozenset({"out"})), "with a gradient are none"),
    ],
)
def test_what_cannot_be_passed_on(choices: Choices, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        read_signature(summed, choices)


def test_an_operator_s_names_as_part_of_another_s_gradient() -> None:
    def scale(x: Matrix, by: float) -> Matrix: ...

    found = renamed(read(scale, "y"), {"x": "grad_z", "y": "grad_x"})
    assert [parameter.name for parameter in found.parameters] == ["grad_z", "by"]
    assert [output.name for output in found.outputs] == ["grad_x"]
    with pytest.raises(DefinitionError, match="scale has no z; there are x, by, y"):
        renamed(read(scale, "y"), {"z": "grad_z"})
