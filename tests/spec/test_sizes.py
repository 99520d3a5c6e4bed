"""The steps that find and check the sizes of a call, and the definitions for which there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jaxtyping import Float
from torch import Tensor

from opsmith.errors import DefinitionError
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.sizes import BindGroup, BindSize, CheckGroup, CheckSize, SizeProgram, SolveSize, plan_sizes


def plan(function: Callable[..., Any]) -> SizeProgram:
    return plan_sizes(read_signature(function, Choices()))


def shown(program: SizeProgram) -> list[str]:
    words = []
    for step in program.steps:
        match step:
            case BindSize():
                words.append(f"{step.name} = {step.parameter.name}[{step.axis}]")
            case SolveSize():
                words.append(f"{step.parameter.name}[{step.axis}] = {step.expression.text} gives {step.affine.name}")
            case CheckSize():
                words.append(f"{step.parameter.name}[{step.axis}] is {step.expression.text}")
            case BindGroup() | CheckGroup():
                verb = "=" if isinstance(step, BindGroup) else "is"
                words.append(f"*{step.group} {verb} {step.parameter.name}[{step.index}:]")
    return words


def test_plain_names_are_bound_before_expressions_are_checked() -> None:
    def f(gates: Float[Tensor, "B 3*S"], cell: Float[Tensor, "B S"]) -> Float[Tensor, "B S"]: ...

    program = plan(f)
    assert shown(program) == ["B = gates[0]", "S = cell[1]", "gates[1] is 3*S", "cell[0] is B"]
    assert program.source == {"B": "from gates", "S": "from cell"}


def test_a_size_that_one_tensor_alone_determines_is_solved() -> None:
    def f(gates: Float[Tensor, "B 3*S"], rest: Float[Tensor, "S+I"]) -> Float[Tensor, "B S I"]: ...

    assert shown(plan(f)) == ["B = gates[0]", "gates[1] = 3*S gives S", "rest[0] = S+I gives I"]


def test_int_arguments_are_known_sizes() -> None:
    def f(x: Float[Tensor, "N*up"], y: Float[Tensor, "up"], up: int) -> Float[Tensor, "N"]: ...

    program = plan(f)
    assert shown(program) == ["x[0] = N*up gives N", "y[0] is up"]
    assert program.source["up"] == "the argument"


def test_groups_are_bound_once_and_axes_behind_them_counted_from_the_end() -> None:
    def f(x: Float[Tensor, "*b N"], y: Float[Tensor, "*b M"]) -> Float[Tensor, "*b N M"]: ...

    assert shown(plan(f)) == ["*b = x[0:]", "*b is y[0:]", "N = x[-1]", "M = y[-1]"]


def test_an_optional_tensor_has_steps_of_its_own() -> None:
    def f(x: Float[Tensor, "N"], w: Float[Tensor, "N K"] | None = None) -> Float[Tensor, "N"]: ...

    program = plan(f)
    assert shown(program) == ["N = x[0]"]
    ((parameter, steps),) = program.optional
    assert parameter.name == "w"
    assert [type(step) for step in steps] == [BindSize, CheckSize]


def never_determined(x: Float[Tensor, "H//s"]) -> Float[Tensor, "1"]: ...
def two_unknowns(x: Float[Tensor, "S*I"]) -> Float[Tensor, "1"]: ...
def local_elsewhere(x: Float[Tensor, "N"], w: Float[Tensor, "K"] | None) -> Float[Tensor, "K"]: ...
def local_twice(
    x: Float[Tensor, "N"], w: Float[Tensor, "K"] | None, v: Float[Tensor, "K"] | None
) -> Float[Tensor, "N"]: ...
def output_group(x: Float[Tensor, "N"]) -> Float[Tensor, "*b N"]: ...
def output_group_anonymous(x: Float[Tensor, "... N"]) -> Float[Tensor, "... N"]: ...
def output_group_of_optional(x: Float[Tensor, "N"], w: Float[Tensor, "*b N"] | None) -> Float[Tensor, "*b N"]: ...
def output_expression(x: Float[Tensor, "N"]) -> Float[Tensor, "2*K"]: ...
def output_anonymous(x: Float[Tensor, "N"]) -> Float[Tensor, "N _"]: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (never_determined, "the size 'H//s' of x needs H, s, which no tensor and no int argument determines"),
        (two_unknowns, "the size 'S*I' of x needs I, S, which no tensor and no int argument determines"),
        (two_unknowns, "add an argument `I: int`"),
        (local_elsewhere, "K is known only if the optional tensor w is given, but is used elsewhere too"),
        (local_twice, "K is known only if the optional tensor w is given"),
        (output_group, "the output out has the variadic dimension '*b', whose sizes no required input determines"),
        (output_group_anonymous, "the output out has the variadic dimension '...'"),
        (output_group_of_optional, "the output out has the variadic dimension '*b'"),
        (output_expression, "has the size 2*K, for which no input determines K. A size that only the kernel knows"),
        (output_anonymous, "the output out has an anonymous dimension `_`; an output's sizes must be named"),
    ],
)
def test_sizes_that_can_never_be_known_are_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        plan(function)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{function.__name__}: ")
