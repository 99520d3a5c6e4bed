"""What a competitor's results are held against."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.benchmark.agree import Judge
from opsmith.benchmark.calls import gradients
from opsmith.benchmark.competitors import visible_outputs
from opsmith.benchmark.workload import workloads
from opsmith.ops.lltm import lltm_cell
from opsmith.subject.subject import subject_of


@pytest.mark.slow("compares gradients in every element type")
@pytest.mark.parametrize("size", [8, 256])  # held to the bounds of each element, and to the reference's own error
def test_gradients_are_those_of_the_outputs_that_a_caller_gets(size: int):
    """lltm_cell has outputs that are saved for its backward; nobody computes gradients of those."""
    subject = subject_of(lltm_cell, devices=("cpu",))
    (workload,) = workloads(subject, "cpu", ("float32",), [{"B": 4, "I": size, "S": size}])
    values = workload.inputs(0)
    judge = Judge(subject, workload, "both", values)
    judge.learn()
    found = gradients(subject, visible_outputs(subject), values)
    assert judge.disagreement(found) is None
    assert judge.disagreement([2 * gradient for gradient in found]) is not None


def _sine(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return torch.sin(x)


@pytest.mark.parametrize("size", [64, 1 << 19])  # as above
@pytest.mark.parametrize("change", [Tensor.bfloat16, Tensor.double])
def test_results_have_the_element_type_of_the_references(size: int, change: Callable[[Tensor], Tensor]):
    subject = subject_of(_sine, reference=_sine, devices=("cpu",))
    (workload,) = workloads(subject, "cpu", ("float32",), [{"N": size}])
    values = workload.inputs(0)
    judge = Judge(subject, workload, "forward", values)
    judge.learn()
    right = torch.sin(values["x"])
    assert judge.disagreement([right]) is None
    found = judge.disagreement([change(right)])
    assert found is not None
    assert str(change(right).dtype) in found
    assert "torch.float32" in found
