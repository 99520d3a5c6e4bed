"""A body that cannot be differentiated, or is not what the definition says, is named when its gradient is needed."""

from __future__ import annotations

import pytest
import torch
from kit import bodies

import opsmith
from opsmith.errors import DefinitionError, GradientError

pytestmark = pytest.mark.compile


@pytest.mark.parametrize("op", [bodies.detached, bodies.of_data, bodies.in_numpy], ids=lambda op: op.definition.name)
def test_a_body_that_hides_what_it_computes_has_no_gradient(op: opsmith.Operator) -> None:
    x = torch.ones(3, requires_grad=True)
    y = op(x)
    assert y.tolist() == [2, 2, 2]
    words = rf"{op.definition.name}\(\) has no gradient: autograd sees nothing .* detach\(\), \.data"
    with pytest.raises(GradientError, match=words):
        y.sum().backward()


def test_an_input_of_which_there_is_no_derivative_has_none() -> None:
    x, gate = torch.ones(3), torch.ones(3, requires_grad=True)
    bodies.gated(x, gate).sum().backward()
    assert gate.grad is None or not gate.grad.any()


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (bodies.shorter, r"output out has the sizes \(2,\), the definition says \(3,\): Float32\[Tensor, \"N\"\]"),
        (bodies.of_another_rank, r"output out has the sizes \(1, 3\), the definition says \(3,\)"),
        (bodies.pair, "returned Tensor, Tensor, the definition says 1 tensor"),
        (bodies.nothing, "returned NoneType, the definition says 1 tensor"),
    ],
)
def test_a_body_of_another_form_is_named(op: opsmith.Operator, words: str) -> None:
    x = torch.ones(3, requires_grad=True)
    y = op(x)
    with pytest.raises(DefinitionError, match=rf"^{op.definition.name}: the body('s)? {words}"):
        y.sum().backward()
