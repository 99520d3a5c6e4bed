"""Finite differences agree with every derivative: backward, forward, batched, second, and for undefined gradients."""

from __future__ import annotations

import pytest
from compose_kit.table import ALL, Case, each_case, each_traced
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.compile


def arguments(case: Case) -> tuple[Tensor, ...]:
    """Return small arguments; those that the operator does not read cannot be checked for a gradient."""
    made = case.make(2)
    return tuple(tensor.detach() if index in case.unread else tensor for index, tensor in enumerate(made))


@each_case
def test_gradcheck(case: Case):
    assert gradcheck(case.found, arguments(case), check_undefined_grad=True)


@each_case
def test_gradcheck_of_gradients_in_batches(case: Case):
    assert gradcheck(case.found, arguments(case), check_batched_grad=True)


@each_case
def test_gradcheck_in_forward_mode(case: Case):
    assert gradcheck(case.found, arguments(case), check_forward_ad=True, check_backward_ad=False)


@each_case
def test_gradcheck_in_forward_mode_in_batches(case: Case):
    assert gradcheck(
        case.found, arguments(case), check_forward_ad=True, check_backward_ad=False, check_batched_forward_grad=True
    )


@each_traced
def test_gradgradcheck(case: Case):
    assert gradgradcheck(case.found, arguments(case))


@each_traced
def test_gradgradcheck_forward_over_reverse(case: Case):
    assert gradgradcheck(
        case.found, arguments(case), check_fwd_over_rev=True, check_rev_over_rev=False, check_undefined_grad=False
    )


@each_case
def test_gradcheck_of_strided_arguments(case: Case):
    strided = tuple(
        tensor.detach().mT.contiguous().mT.requires_grad_(tensor.requires_grad)
        if tensor.dim() == 2
        else tensor.detach().repeat_interleave(2)[::2].requires_grad_(tensor.requires_grad)
        for tensor in arguments(case)
    )
    assert not all(tensor.is_contiguous() for tensor in strided)
    assert gradcheck(case.found, strided)


# For each operator that has them, two arguments of one shape.
_TWINS = [
    pytest.param(case, earlier, later, id=f"{case.name}-{earlier}-{later}")
    for case in ALL
    for later in range(len(case.shapes))
    for earlier in range(later)
    if case.shapes[earlier] == case.shapes[later] and not {earlier, later} & set(case.unread)
]


@pytest.mark.parametrize(("case", "earlier", "later"), _TWINS)
def test_the_same_tensor_for_two_arguments(case: Case, earlier: int, later: int):
    """Gradients of both places add up, and a tangent goes through both."""
    given = [tensor.detach() for tensor in case.make(2)]

    def call(x: Tensor) -> tuple[Tensor, ...]:
        given[earlier] = given[later] = x
        return case.found(*given)

    assert gradcheck(call, (given[earlier].clone().requires_grad_(),), check_forward_ad=True)
