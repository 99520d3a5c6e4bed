"""Wrong gradients are named `gradient` or `second gradient` and nothing else; right ones raise no alarm."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from jaxtyping import Float
from kit_comp import kernels, python_ops
from kit_comp.judged import judge
from torch import Tensor

from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.gradient_cases import gradient_cases, requests_of
from opsmith.checker.properties.gradient_oracle import without_overflow
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.sigmoid import sigmoid
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.disagreement import Expected
from opsmith.subject.subject import subject_of
from some import some

pytestmark = pytest.mark.compile

Rows = Float[Tensor, "B N"]
Row = Float[Tensor, "N"]
PROPERTIES = ("value", "sizes", "empty", "strides", "gradient", "second gradient")
PYTHON: dict[str, Any] = {
    "cubic": python_ops.cubic_reference,
    "parts": python_ops.parts_reference,
    "once": python_ops.square_reference,
}
WRONG_PYTHON = {
    "wrong_sign": "the gradient of scale",
    "forgets_scale": "scale gets no gradient",
    "assumes_contiguous": "gradients of the outputs that are every second",
    "fails_on_empty": "the gradient raises RuntimeError",
}


def first(results: dict[tuple[str, str], Outcome], name: str) -> Outcome:
    return next(outcome for (found, _), outcome in results.items() if found == name)


@pytest.mark.parametrize(
    "op",
    some([kernels.right, add2, sigmoid, lltm_gates, lltm_cell], 2, "gradients of operators that are right"),
    ids=repr,
)
def test_right_kernels_raise_no_alarm(op: Any) -> None:
    names, results = judge(op, "gradient", "second gradient")
    assert names == ()
    assert results["gradient", "float64"].state == "passed"
    assert results["gradient", "float16"].state == "passed"


@pytest.mark.slow("several properties of an operator")
def test_a_subgradient_at_a_kink_is_the_references() -> None:
    # Zero is an exact input, and the definition says which of the subgradients it has.
    names, _ = judge(kernels.kinked, "gradient", "second gradient")
    assert names == ("gradient",)


@pytest.mark.parametrize("name", some(PYTHON, 1, "gradients of operators that are right"))
def test_right_operators_of_others_raise_no_alarm(name: str) -> None:
    names, results = judge(getattr(python_ops, name), "gradient", "second gradient", reference=PYTHON[name])
    assert names == ()
    assert results["gradient", "float64"].inputs > 10


@pytest.mark.parametrize("name", some(["short_sum", "packed", "leaky"], 1, "gradients of each wrong operator"))
def test_a_wrong_backward_kernel_fails_its_gradient_alone(name: str) -> None:
    names, results = judge(getattr(kernels, name), *PROPERTIES)
    assert names == ("gradient",)
    assert {dtype for (_, dtype), outcome in results.items() if outcome.state == "failed"} == {"float64", "float16"}


@pytest.mark.parametrize("name", some(WRONG_PYTHON, 1, "gradients of each wrong operator"))
def test_a_wrong_backward_in_python_fails_its_gradient_alone(name: str) -> None:
    names, results = judge(getattr(python_ops, name), *PROPERTIES, reference=python_ops.cubic_reference)
    assert names == ("gradient",)
    assert WRONG_PYTHON[name] in results["gradient", "float64"].findings[0].message


@pytest.mark.slow("several properties of an operator")
def test_a_gradient_that_is_wrong_for_one_output_of_two_is_found() -> None:
    names, _ = judge(python_ops.mixes_parts, *PROPERTIES, reference=python_ops.parts_reference)
    assert names == ("gradient",)


def test_gradients_that_are_silently_lost_are_found() -> None:
    names, results = judge(python_ops.loses_gradients, *PROPERTIES, reference=python_ops.square_reference)
    assert names == ("gradient",)
    assert "silently lost" in results["gradient", "float64"].findings[0].message


def test_an_operator_without_a_gradient_is_told_from_one_with_a_wrong_one() -> None:
    names, results = judge(python_ops.without_gradient, *PROPERTIES, reference=python_ops.cubic_reference)
    assert names == ()
    assert results["gradient", "float64"].state == "not run"
    assert results["gradient", "float64"].note.startswith("no gradient is registered: Trying to backward through")


def test_the_trap_of_finite_differences_is_told() -> None:
    _, results = judge(python_ops.cubic, "gradient", reference=python_ops.cubic_reference)
    assert "finite differences mean nothing in float16" in results["gradient", "float16"].note
    assert results["gradient", "float64"].note == ""


@pytest.mark.parametrize(
    ("name", "words"),
    some(
        [("cuts_the_graph", "have no graph"), ("halves_the_graph", "the second gradient")],
        1,
        "properties of a wrong operator",
    ),
)
def test_a_wrong_second_gradient_is_named_so_and_no_other(name: str, words: str) -> None:
    names, results = judge(getattr(python_ops, name), *PROPERTIES, reference=python_ops.cubic_reference)
    assert names == ("second gradient",)
    assert words in first(results, "second gradient").findings[0].message


@pytest.mark.parametrize(("name", "state"), [("no_double", "passed"), ("no_double_and_half_a_graph", "failed")])
def test_without_float64_second_gradients_are_compared_in_the_operators_own_type(name: str, state: str) -> None:
    examples = [(torch.randn(5, 3), torch.rand(3))]
    subject = subject_of(getattr(python_ops, name), reference=python_ops.cubic_reference, examples=examples)
    report = run_check(subject, CheckPlan(properties=chosen(("gradient", "second gradient"))))
    states = {result.name: result.outcome.state for result in report.results}
    assert states == {"gradient": "passed", "second gradient": state}, str(report)


def test_a_second_gradient_that_is_refused_is_no_defect() -> None:
    _, results = judge(python_ops.once, "second gradient", reference=python_ops.square_reference)
    outcome = first(results, "second gradient")
    assert outcome.state == "not run"
    assert "once_differentiable" in outcome.note


@pytest.mark.parametrize("values", ["big", "normal", "zeros"])
@pytest.mark.parametrize("other", [math.inf, 3.0])
def test_a_sum_of_infinite_gradients_may_be_infinite_or_nan_where_others_overflow(values: str, other: float) -> None:
    """As decay * y - decay * x, which is inf - inf, and decay * (y - x), which is inf."""
    case = Case({"x": TensorRecipe((2,), "float64", values=values)})
    wanted = torch.tensor([math.nan, other], dtype=torch.float64)
    expected = Expected((wanted,), None, (torch.zeros(2, dtype=torch.float64),), lambda: pytest.fail("not measured"))
    found = torch.tensor([math.inf, other], dtype=torch.float64)
    (seen,) = without_overflow(case, [found], expected)
    is_excused = values != "zeros" and math.isinf(other)  # a reference that divides by 0 says what it has there
    assert bool(seen[0].isnan()) == is_excused
    finite = torch.tensor([1.0, other], dtype=torch.float64)
    assert without_overflow(case, [finite], expected)[0][0] == 1.0  # a number is never taken for it


@pytest.mark.parametrize(("result", "is_excused"), [(math.inf, True), (3.0, False)])
def test_infinite_results_say_so_too_where_no_infinite_gradient_is_asked_for(result: float, is_excused: bool) -> None:
    case = Case({"x": TensorRecipe((1,), "float64", values="normal")})
    wanted, limit = torch.full((1,), math.nan, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    expected = Expected((wanted,), None, (limit,), lambda: pytest.fail("not measured"))
    found = torch.full((1,), -math.inf, dtype=torch.float64)
    (seen,) = without_overflow(case, [found], expected, [torch.tensor([1.0, result])])
    assert bool(seen[0].isnan()) == is_excused


def shifted_exponential(x: Rows) -> Rows:
    return x.exp() + 1


def forgets_the_shift_of_long_rows(x: Tensor) -> Tensor:
    y = x.exp()
    return y if x.requires_grad and x.shape[1] > 64 else y + 1


@pytest.mark.parametrize("properties", [("gradient",), ("value", "sizes", "strides", "gradient")], ids=len)
def test_a_result_that_is_wrong_where_a_gradient_is_recorded_fails_gradient(properties: tuple[str, ...]) -> None:
    names, results = judge(forgets_the_shift_of_long_rows, *properties, reference=shifted_exponential)
    assert names == ("gradient",)
    message = first(results, "gradient").findings[0].message
    assert "where a gradient is recorded, " in message
    assert "right otherwise" in message


def scaled_rows(x: Rows, gain: Row, bias: Row) -> Rows:
    return x * gain + bias


def test_each_input_in_turn_needs_no_gradient_in_long_rows() -> None:
    subject = subject_of(scaled_rows, reference=scaled_rows, devices=("cpu",))
    context = Context(subject, "cpu", {"T": "float32"})
    left_out: dict[str, set[tuple[str, ...]]] = {}
    for case in gradient_cases(context):
        name, _, size = case.label.partition(" = ")
        if case.group == "sizes" and size.isdecimal() and int(size) > 64:
            left_out.setdefault(name, set()).update(request.inputs for request in requests_of(context, case))
    expected = {("x", "gain", "bias"), ("gain", "bias"), ("x", "bias"), ("x", "gain")}
    assert left_out == {"B": expected, "N": expected}
