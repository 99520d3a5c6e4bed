"""What autocast casts, as data: which arguments belong together, and the type that each rule chooses."""

from __future__ import annotations

import pytest
from jaxtyping import Float, Float32, Int, Int64, Real
from torch import Tensor

from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.casts import CastGroup, CastPlan, choose_type, plan_casts

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def test_arguments_are_grouped_by_their_template_parameter():
    def f(
        x: Float[Tensor, "N"],
        size: int,
        index: Int[Tensor, "N"],
        exact: Float32[Tensor, "N"],
        count: Int64[Tensor, "1"],
        more: list[Float[Tensor, "N"]],
        last: Float[Tensor, "N"] | None = None,
    ) -> Float[Tensor, "N"]: ...

    signature = read_signature(f, Choices())
    assert plan_casts(signature, "low") == CastPlan("low", (CastGroup((0, 5, 6), FLOATS),), ((3, "float32"),))
    assert plan_casts(signature, None) is None


def test_nothing_is_cast_that_is_written_to_or_must_have_its_type():
    def f(x: Float[Tensor, "N"], total: Float[Tensor, "N"], sums: Float32[Tensor, "N"]) -> None: ...
    def g(index: Int[Tensor, "N"]) -> Int[Tensor, "N"]: ...

    assert plan_casts(read_signature(f, Choices(mutates=frozenset({"total", "sums"}))), "promote") is None
    assert plan_casts(read_signature(g, Choices()), "promote") is None


def test_a_real_number_may_be_an_integer():
    def f(x: Real[Tensor, "N"]) -> Real[Tensor, "N"]: ...

    plan = plan_casts(read_signature(f, Choices()), "promote")
    assert plan is not None
    assert choose_type("promote", plan.groups[0].allowed, ["int32", "float32"], "bfloat16") is None


@pytest.mark.parametrize(
    ("rule", "given", "allowed", "expected"),
    [
        ("promote", {"float16"}, FLOATS, "float16"),
        ("promote", {"float16", "float32"}, FLOATS, "float32"),
        ("promote", {"float16", "bfloat16"}, FLOATS, "float32"),
        ("promote", {"float16", "bfloat16"}, FLOATS - {"float32"}, None),
        ("promote", {"float32", "float64"}, FLOATS, None),
        ("promote", set(), FLOATS, None),
        ("low", {"float32"}, FLOATS, "bfloat16"),
        ("low", {"float16", "float32"}, FLOATS, "bfloat16"),
        ("low", {"float16", "float32"}, FLOATS - {"bfloat16"}, "float32"),
        ("low", {"float64"}, FLOATS, None),
        ("float32", {"bfloat16"}, FLOATS, "float32"),
        ("float32", {"bfloat16"}, FLOATS - {"float32"}, "bfloat16"),
    ],
)
def test_the_type_that_is_chosen(rule, given, allowed, expected):
    assert choose_type(rule, allowed, given, "bfloat16") == expected
