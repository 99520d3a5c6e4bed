"""Forward-mode differentiation: tangents are those of the body, and never silently zero."""

from __future__ import annotations

import pytest
import torch
from compose_kit.table import Case, each_case, each_operator
from torch import Tensor
from torch.autograd import forward_ad as fwad

pytestmark = pytest.mark.compile


def tangents_of(outputs: tuple[Tensor, ...]) -> list[Tensor | None]:
    return [fwad.unpack_dual(output).tangent for output in outputs]


def duals(case: Case, which: set[int], *, requires_grad: bool = False) -> tuple[Tensor, ...]:
    """Return arguments, those in `which` with a tangent; call it inside `dual_level`."""
    arguments = case.make(requires_grad=requires_grad)
    tangents = case.make(seed=1, requires_grad=False)
    pairs = enumerate(zip(arguments, tangents, strict=True))
    return tuple(fwad.make_dual(a, t) if index in which else a for index, (a, t) in pairs)


@each_case
@pytest.mark.parametrize("requires_grad", [False, True])
def test_values_and_tangents(case: Case, requires_grad: bool):
    with fwad.dual_level():
        inputs = duals(case, set(range(len(case.shapes))), requires_grad=requires_grad)
        found, expected = case.found(*inputs), case.expected(*inputs)
        torch.testing.assert_close(found, expected)
        assert all(tangent is not None and tangent.abs().max() > 0 for tangent in tangents_of(found))
        torch.testing.assert_close(tangents_of(found), tangents_of(expected))


@each_case
def test_a_tangent_on_one_argument_alone(case: Case):
    for index in range(len(case.shapes)):
        with fwad.dual_level():
            inputs = duals(case, {index})
            for found, expected in zip(
                tangents_of(case.found(*inputs)), tangents_of(case.expected(*inputs)), strict=True
            ):
                # An output that does not depend on the argument has no tangent, or one of zeros.
                if expected is None:
                    assert found is None or not found.any()
                else:
                    torch.testing.assert_close(found, expected)


@each_operator
def test_no_grad_keeps_tangents_and_no_tangent_gives_none(case: Case):
    with torch.no_grad(), fwad.dual_level():
        inputs = duals(case, {0})
        tangent = tangents_of(case.found(*inputs))[0]
        torch.testing.assert_close(tangent, tangents_of(case.expected(*inputs))[0])
        assert tangents_of(case.found(*case.make())) == [None] * len(case.expected(*case.make()))


@each_operator
def test_forward_mode_can_be_switched_off(case: Case):
    with fwad.dual_level():
        inputs = duals(case, {0})
        with fwad._set_fwd_grad_enabled(False):
            assert set(tangents_of(case.found(*inputs))) == {None}


@each_operator
def test_a_tangent_can_be_differentiated_backward(case: Case):
    def gradients(function) -> tuple[Tensor, ...]:
        leaves = case.make()
        tangents = case.make(seed=1)
        with fwad.dual_level():
            inputs = [fwad.make_dual(leaf, tangent) for leaf, tangent in zip(leaves, tangents, strict=True)]
            total = sum(tangent.square().sum() for tangent in tangents_of(function(*inputs)))
        return torch.autograd.grad(total, [*leaves, *tangents], allow_unused=True, materialize_grads=True)

    torch.testing.assert_close(gradients(case.found), gradients(case.expected))


@each_operator
def test_tangents_of_many_steps(case: Case):
    """A tangent goes through calls whose inputs come from other calls."""
    with fwad.dual_level():
        inputs = list(duals(case, set(range(len(case.shapes)))))
        expected = list(inputs)
        last = len(case.found(*inputs)) - 1
        for _ in range(3):
            # The last output has the shape of one of the arguments in each of the operators.
            for arguments, function in ((inputs, case.found), (expected, case.expected)):
                result = function(*arguments)[last]
                place = next(i for i, argument in enumerate(arguments) if argument.shape == result.shape)
                arguments[place] = result
        torch.testing.assert_close(tangents_of(tuple(inputs)), tangents_of(tuple(expected)))
