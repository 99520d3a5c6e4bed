"""A failing case is made as small as it can be, and stays what makes it fail."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float
from kit_screen import operators
from torch import Tensor

import opsmith
from opsmith.checker.properties.context import Context
from opsmith.checker.shrink import smallest
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.subject import subject_of


def matrix(x: Float[Tensor, "B N"], scale: Float[Tensor, "N"], power: int = 2) -> Float[Tensor, "B N"]:
    return x**power * scale


def plain(x: Tensor) -> Tensor:
    return x


CONTEXT = Context(subject_of(matrix, reference=matrix), "cpu", {"T": "float32"})
CASE = Case(
    {
        "x": TensorRecipe((33, 65), "float32", "transposed", "big", 1),
        "scale": TensorRecipe((65,), "float32", "every second", "normal", 2),
        "power": 2,
    },
    label="N = 65",
)


def shapes(case: Case) -> dict[str, tuple[int, ...]]:
    return {name: recipe.shape for name, recipe in case.tensors().items()}


@pytest.mark.parametrize(
    ("fails", "smallest_shape"),
    [
        (lambda x: True, (1, 1)),
        (lambda x: x.shape[1] > 8, (1, 9)),
        (lambda x: x.shape[1] % 4 == 1 and x.shape[1] > 4, (1, 5)),
        (lambda x: x.shape[0] >= 32, (32, 1)),
        (lambda x: x.numel() == 0, (0, 1)),
    ],
)
def test_sizes_become_the_smallest_that_fail(fails: Callable[[TensorRecipe], bool], smallest_shape: tuple[int, ...]):
    class Shape:
        def __init__(self, recipe: TensorRecipe) -> None:
            self.shape = recipe.shape

        def numel(self) -> int:
            return self.shape[0] * self.shape[1]

    case = CASE
    if smallest_shape[0] == 0:
        case = Case({**CASE.arguments, "x": TensorRecipe((0, 65), "float32")})
    found = smallest(CONTEXT, case, lambda other: fails(Shape(other.tensors()["x"])))
    # The size that both tensors have stays one size.
    assert shapes(found) == {"x": smallest_shape, "scale": smallest_shape[1:]}
    assert found.arguments["power"] == 2


def test_layouts_and_values_become_plain_but_for_what_fails():
    found = smallest(CONTEXT, CASE, lambda other: other.tensors()["scale"].layout == "every second")
    layouts = {name: (recipe.layout, recipe.values) for name, recipe in found.tensors().items()}
    assert layouts == {"x": ("contiguous", "normal"), "scale": ("every second", "normal")}

    found = smallest(CONTEXT, CASE, lambda other: other.tensors()["x"].values == "big")
    assert found.tensors()["x"].layout == "contiguous"
    assert shapes(found)["x"] == (1, 1)


def test_what_fails_only_as_it_is_stays_as_it_is():
    assert smallest(CONTEXT, CASE, lambda other: other == CASE) == CASE


def test_examples_keep_their_numbers():
    given = torch.randn(5, 7)
    case = Case({"x": TensorRecipe((5, 7), "float32", "transposed", given=given)})
    context = Context(subject_of(plain, reference=plain, examples=[(given,)]), "cpu", {"T": "float32"})
    found = smallest(context, case, lambda other: True)
    assert found.tensors()["x"].layout == "contiguous"
    assert torch.equal(found.build()["x"], given)


def test_given_numbers_are_cut():
    given = torch.randn(5, 7)
    case = Case({"x": TensorRecipe((5, 7), "float32", given=given), "scale": TensorRecipe((7,), "float32"), "power": 2})
    found = smallest(CONTEXT, case, lambda other: other.tensors()["x"].numbers().shape[1] >= 3)
    assert torch.equal(found.build()["x"], given[:1, :3])
    assert shapes(found) == {"x": (1, 3), "scale": (3,)}


def test_without_hypothesis_layouts_become_plain(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    found = smallest(CONTEXT, CASE, lambda other: True)
    assert shapes(found)["x"] == (33, 65)
    assert {recipe.layout for recipe in found.tensors().values()} == {"contiguous"}


@pytest.mark.compile
def test_the_smallest_case_of_a_forgotten_tail():
    report = opsmith.check(operators.wrong_tail, properties=["value", "sizes"], dtypes=["float32"])
    # Right for whole blocks: the size is what is wrong, and not the values.
    assert report.failed == ("sizes",)
    (finding,) = report.findings
    assert finding.case is not None
    assert shapes(finding.case) == {"x": (9,)}
    assert "First seen with: dozens of elements" in finding.message
