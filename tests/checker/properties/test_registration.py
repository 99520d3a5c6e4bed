"""What opcheck alone finds is named `opcheck`; what another property has a name for is left to that one."""

from __future__ import annotations

from typing import Any

import pytest
from kit_comp import fakes, functions, kernels, python_ops, registered
from kit_comp.judged import judge

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_gates
from opsmith.ops.sigmoid import sigmoid

pytestmark = pytest.mark.compile

AROUND = ("value", "gradient", "fake", "opcheck", "compile", "export", "func.grad", "jvp")
CUBE = {"reference": functions.cube_reference}
RIGHT: dict[str, tuple[Any, dict[str, Any]]] = {
    "add2": (add2, {}),
    "sigmoid": (sigmoid, {}),
    "lltm_gates": (lltm_gates, {}),
    "custom_op": (python_ops.cubic, {"reference": python_ops.cubic_reference}),
    "no gradient": (python_ops.without_gradient, {"reference": python_ops.cubic_reference}),
    "forward only": (registered.forward_only, CUBE),
    "sizes from data": (fakes.positive, {"reference": fakes.positive_reference, "examples": fakes.EXAMPLES}),
    "mutating": (fakes.add_one_, {"reference": fakes.add_one_reference}),
    "lists": (fakes.pick, {"reference": fakes.pick_reference, "examples": fakes.PICK_EXAMPLES}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_operators_raise_no_alarm(name: str) -> None:
    op, how = RIGHT[name]
    names, results = judge(op, "opcheck", **how)
    assert names == ()
    assert results["opcheck", ""].state == "passed"
    assert results["opcheck", ""].note == ""


@pytest.mark.parametrize("op", [registered.gradient_at_cpu, registered.gradient_by_chance], ids=str)
def test_a_gradient_at_the_key_of_a_device_fails_opcheck_alone(op: Any) -> None:
    names, results = judge(op, *AROUND, **CUBE)
    assert names == ("opcheck",)
    finding = results["opcheck", ""].findings[0]
    assert "test_autograd_registration" in finding.message
    assert "register_autograd" in finding.hint


@pytest.mark.slow("several properties of each operator")
def test_what_others_name_is_left_to_them() -> None:
    names, results = judge(fakes.WRONG["the shape"], "fake", "opcheck", reference=fakes.doubled_reference)
    assert names == ("fake",)
    assert results["opcheck", ""].note.startswith("see `fake` for what opcheck's")
    names, results = judge(registered.scribbles, "opcheck", "inputs unchanged", **CUBE)
    assert names == ("inputs unchanged",)
    assert results["opcheck", ""].note.startswith("see `inputs unchanged` for what opcheck's")
    names, _ = judge(kernels.short_sum, "gradient", "opcheck")
    assert names == ("gradient",)


def test_arguments_that_go_by_name_are_given_by_name() -> None:
    names, results = judge(kernels.scaled, "value", "gradient", "opcheck", "compile", "export", "vmap", "jvp")
    assert names == ()
    assert {outcome.state for outcome in results.values()} == {"passed"}


def test_a_second_gradient_that_is_refused_is_no_defect() -> None:
    names, results = judge(kernels.once, "gradient", "second gradient", "opcheck")
    assert names == ()
    assert results["second gradient", ""].state == "not run"
    assert results["opcheck", ""].note.startswith("see `second gradient` for what opcheck's")
