"""Dimension strings: how they are read, and which an operator cannot have."""

from __future__ import annotations

import pytest

from opsmith.errors import DefinitionError
from opsmith.spec.shapes import Shape, parse_shape


def parse(text: str) -> Shape:
    return parse_shape(text, where="f: x")


def test_a_shape_knows_its_rank_and_names() -> None:
    shape = parse("B  3*S   4")
    assert (shape.text, shape.rank, shape.names) == ("B 3*S 4", 3, {"B", "S"})
    assert shape.variadic_index is None
    assert [shape.axis(index) for index in range(3)] == [0, 1, 2]


def test_the_empty_string_is_a_0_dimensional_tensor() -> None:
    assert parse("").rank == 0
    assert not parse("").is_group


def test_dimensions_behind_a_variadic_group_are_counted_from_the_end() -> None:
    shape = parse("A *batch H W")
    assert (shape.variadic_index, shape.group, shape.rank) == (1, "batch", 4)
    assert [shape.axis(index) for index in (0, 2, 3)] == [0, -2, -1]
    assert not shape.is_group


@pytest.mark.parametrize("text", ["...", "*_"])
def test_an_anonymous_group_has_no_name_and_makes_nothing_elementwise(text: str) -> None:
    shape = parse(f"{text} N")
    assert (shape.variadic_index, shape.group) == (0, None)
    assert not parse(text).is_group


def test_a_named_group_alone_is_an_elementwise_shape() -> None:
    assert parse("*shape").is_group


def test_anonymous_and_annotated_sizes() -> None:
    anonymous, four = parse("_ rows=4").dims
    assert (anonymous.expression, anonymous.variadic) == (None, False)
    assert four.expression is not None
    assert (four.expression.constant, four.text) == (4, "4")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*a *b", "several variadic groups"),
        ("... *b", "several variadic groups"),
        ("*3", "'*3' is not a variadic dimension; write a name after the `*`"),
        ("*", "'*' is not a variadic dimension"),
        ("#B N", "asks for broadcasting"),
        ("*#B N", "is not a variadic dimension"),
        ("?B N", "is for trees of tensors"),
        ("B N/2", "divides with `/`"),
    ],
)
def test_what_a_kernel_cannot_take_is_refused(text: str, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        parse(text)
    assert words in str(error.value)
    assert str(error.value).startswith("f: x: ")
