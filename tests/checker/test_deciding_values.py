"""What decides between functions or elements: texts with extreme values, and integers of which a part means another."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.subject import subject_of

_FUNCTIONS = {"linear": lambda x: x, "sigmoid": torch.sigmoid}


def reference(x: Float[Tensor, "N C *inner"], act: str = "linear") -> Float[Tensor, "N C *inner"]:
    return _FUNCTIONS[act](x)


def overflows(x: Tensor, act: str = "linear") -> Tensor:
    return _FUNCTIONS[act](x) if act == "linear" else x.exp() / (1 + x.exp())


class _Overflows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (-x).exp() / (1 + (-x).exp()) ** 2


def overflows_backward(x: Tensor, act: str = "linear") -> Tensor:
    return _FUNCTIONS[act](x) if act == "linear" else _Overflows.apply(x)


def outcome_of(kernel, name: str) -> Outcome:
    # Only the examples name the texts.
    subject = subject_of(kernel, reference=reference, examples=[(torch.randn(2, 3), "sigmoid")], devices=("cpu",))
    (result,) = run_check(subject, CheckPlan(chosen((name,)), dtypes=("float32",))).results
    return result.outcome


@pytest.mark.parametrize(("kernel", "name"), [(overflows, "magnitude"), (overflows_backward, "gradient")])
def test_a_function_that_overflows(kernel, name: str) -> None:
    assert outcome_of(reference, name).state == "passed"
    (finding,) = outcome_of(kernel, name).findings
    assert "steep values" in finding.message
    assert "is nan" in finding.message


def labels(x: Float[Tensor, "N"], label: Int64[Tensor, "N"]) -> Float[Tensor, "N"]:
    return torch.where((label >= 0) & (label < 4), x, torch.nan)


def labels_of_16_bits(x: Tensor, label: Tensor) -> Tensor:
    return labels(x, torch.where(label < 0, -1, label).to(torch.int16))


def test_an_integer_of_which_a_part_is_an_index() -> None:
    results = run_check(
        subject_of(labels_of_16_bits, reference=labels, devices=("cpu",)),
        CheckPlan(chosen(("special values",)), dtypes=("float32",)),
    ).results
    (finding,) = results[0].outcome.findings
    assert "integers beyond 16 or 32 bits" in finding.message
