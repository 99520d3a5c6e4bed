"""Defects under torch.func are named `vmap`, `func.grad` or `jvp` and nothing else; right operators raise no alarm."""

from __future__ import annotations

from typing import Any

import pytest
from kit_comp import fakes, functions, kernels, python_ops
from kit_comp.judged import judge

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid

pytestmark = pytest.mark.compile

TRANSFORMS = ("vmap", "func.grad", "jvp")
AROUND = ("value", "strides", "gradient", "second gradient", "fake", *TRANSFORMS)
CUBE = {"reference": functions.cube_reference}


@pytest.mark.parametrize("op", [add2, sigmoid, lltm_gates, lltm_cell, kernels.right], ids=repr)
def test_operators_of_definitions_compose(op: Any) -> None:
    names, results = judge(op, *TRANSFORMS)
    assert names == ()
    assert {outcome.state for outcome in results.values()} == {"passed"}


def test_a_right_operator_of_others_raises_no_alarm() -> None:
    names, results = judge(functions.right, *AROUND, **CUBE)
    assert names == ()
    assert results["vmap", ""].state == results["jvp", ""].state == "passed"
    assert results["jvp", ""].note == ""


def test_a_right_function_of_others_raises_no_alarm() -> None:
    names, results = judge(functions.right_function, *AROUND, **CUBE)
    assert names == ()
    assert results["func.grad", ""].state == results["jvp", ""].state == "passed"


def test_forward_mode_that_is_refused_is_no_defect() -> None:
    names, results = judge(functions.refuses_jvp, *TRANSFORMS, **CUBE)
    assert names == ()
    assert results["jvp", ""].state == "passed"
    assert "forward mode is rejected: NotImplementedError" in results["jvp", ""].note


def test_tangents_that_are_silently_zero_fail_jvp_alone() -> None:
    names, results = judge(functions.zero_jvp, *AROUND, **CUBE)
    assert names == ("jvp",)
    assert "silently zero, for x" in results["jvp", ""].findings[0].message


def test_wrong_tangents_fail_jvp_alone() -> None:
    names, results = judge(functions.wrong_jvp, *AROUND, **CUBE)
    assert names == ("jvp",)
    assert "from the reference's" in results["jvp", ""].findings[0].message


@pytest.mark.slow("several properties of an operator")
def test_a_wrong_gradient_is_not_named_jvp_or_func_grad_too() -> None:
    names, _ = judge(kernels.short_sum, "gradient", *TRANSFORMS)
    assert names == ("gradient",)
    names, _ = judge(python_ops.loses_gradients, "gradient", *TRANSFORMS, reference=python_ops.square_reference)
    assert names == ("gradient",)


def test_a_backward_that_reads_numbers_fails_func_grad_alone() -> None:
    names, results = judge(functions.reads_numbers, *AROUND, **CUBE)
    assert names == ("func.grad",)
    assert "torch.func.jacrev raises" in results["func.grad", ""].findings[0].message


@pytest.mark.parametrize("name", functions.WRONG_RULES)
def test_a_wrong_rule_fails_vmap_alone(name: str) -> None:
    names, _ = judge(functions.WRONG_RULES[name], *AROUND, **CUBE)
    assert names == ("vmap",)


def test_a_missing_rule_is_named_with_what_to_do() -> None:
    names, results = judge(functions.no_rule, *AROUND, **CUBE)
    assert names == ("vmap",)
    assert "torch.library.register_vmap('kit_functions::no_rule')" in results["vmap", ""].findings[0].hint
    names, _ = judge(python_ops.without_vmap, *AROUND, reference=python_ops.cubic_reference)
    assert names == ("vmap",)


def test_what_pytorch_generates_is_no_defect_of_the_operator() -> None:
    names, results = judge(python_ops.cubic, *TRANSFORMS, reference=python_ops.cubic_reference)
    assert names == ()
    assert results["vmap", ""].state == "passed"
    assert "has no forward mode" in results["jvp", ""].note
    assert "has no torch.func transforms" in results["func.grad", ""].note


@pytest.mark.parametrize(
    ("op", "how"),
    [
        (fakes.positive, {"reference": fakes.positive_reference, "examples": fakes.EXAMPLES}),
        (fakes.add_one_, {"reference": fakes.add_one_reference}),
        (fakes.pick, {"reference": fakes.pick_reference, "examples": fakes.PICK_EXAMPLES}),
    ],
    ids=["sizes from data", "mutating", "lists"],
)
def test_what_cannot_be_batched_is_not_judged(op: Any, how: dict[str, Any]) -> None:
    names, results = judge(op, *TRANSFORMS, **how)
    assert names == ()
    assert results["vmap", ""].state == "not run"
    assert results["vmap", ""].note
