"""What is wrong where an operator is traced is named `fake`, `compile`, `export` or `opcheck`; right ones raise no alarm."""

from __future__ import annotations

from typing import Any

import pytest
from kit_comp import fakes, functions, kernels, python_ops
from kit_comp.judged import judge

from opsmith.ops.lltm import lltm_gates
from some import some

pytestmark = pytest.mark.compile

AROUND = ("value", "sizes", "strides", "gradient", "fake", "compile", "export")
OTHERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "contiguous": (fakes.right_fake, {"reference": fakes.doubled_reference}),
    "as its input": (fakes.keeps_strides, {"reference": fakes.doubled_reference}),
    "sizes from data": (fakes.positive, {"reference": fakes.positive_reference, "examples": fakes.EXAMPLES}),
    "mutating": (fakes.add_one_, {"reference": fakes.add_one_reference}),
    "autograd kernel": (functions.right, {"reference": functions.cube_reference}),
    "lists": (fakes.pick, {"reference": fakes.pick_reference, "examples": fakes.PICK_EXAMPLES}),
}


# Of the library's operators tests/ops/test_check.py checks all.
@pytest.mark.parametrize("op", [lltm_gates, kernels.right], ids=repr)
def test_fake_kernels_of_definitions_are_right(op: Any) -> None:
    names, results = judge(op, "fake", "compile", "export")
    assert names == ()
    assert results["fake", "float64"].inputs > 10
    assert results["compile", ""].inputs == 3
    assert results["export", ""].inputs == 2


@pytest.mark.parametrize("name", some(OTHERS, 1, "several properties of each kind of operator"))
def test_right_fake_kernels_of_others_raise_no_alarm(name: str) -> None:
    op, how = OTHERS[name]
    names, results = judge(op, "fake", "compile", "export", **how)
    assert names == ()
    assert results["compile", ""].inputs > 1
    assert results["export", ""].inputs > 1
    assert all(outcome.state == "passed" for outcome in results.values())


@pytest.mark.parametrize("words", some(fakes.WRONG, 1, "several properties of each wrong fake kernel", at_most=2))
def test_a_wrong_fake_kernel_fails_fake_alone(words: str) -> None:
    names, results = judge(fakes.WRONG[words], *AROUND, reference=fakes.doubled_reference)
    assert names == ("fake",)
    assert words in results["fake", "float64"].findings[0].message


def test_a_missing_fake_kernel_is_named_with_what_to_do() -> None:
    names, results = judge(fakes.no_fake, *AROUND, reference=fakes.doubled_reference)
    assert names == ("fake",)
    finding = results["fake", "float64"].findings[0]
    assert "there is no fake kernel" in finding.message
    assert "torch.library.register_fake('kit_comp::no_fake')" in finding.hint


@pytest.mark.slow("traces an operator several times")
def test_a_fake_kernel_that_makes_numbers_of_sizes_fails_compile_alone() -> None:
    names, results = judge(fakes.fixes_sizes, *AROUND, reference=fakes.doubled_reference)
    assert names == ("compile",)
    assert "recompiled for other sizes: 2 graphs for 3 sizes" in results["compile", ""].findings[0].message
    assert "torch.compile, which traces the operator in the same way, already fails" in results["export", ""].note


@pytest.mark.slow("traces an operator several times")
def test_a_backward_that_cannot_be_traced_fails_compile_alone() -> None:
    names, results = judge(
        python_ops.backward_by_numpy, "gradient", "fake", "compile", "export", reference=python_ops.cubic_reference
    )
    assert names == ("compile",)
    assert "torch.compile raises" in results["compile", ""].findings[0].message


@pytest.mark.slow("traces an operator several times")
def test_what_fails_in_export_alone_is_named_so() -> None:
    names, _ = judge(fakes.fixes_sizes_in_export, *AROUND, reference=fakes.doubled_reference)
    assert names == ("export",)


@pytest.mark.slow("traces an operator several times")
def test_a_wrong_gradient_or_value_is_not_named_compile() -> None:
    names, _ = judge(kernels.short_sum, "gradient", "fake", "compile", "export")
    assert names == ("gradient",)
