"""The selection of operators: a gradient's operator is worked on through its forward."""

from __future__ import annotations

from opsmith.subject.selection import forward_operators


def test_a_backward_is_checked_through_its_forward():
    from opsmith.ops.sigmoid import sigmoid, sigmoid_backward

    assert forward_operators([sigmoid, sigmoid_backward]) == (sigmoid,)


def test_an_operator_that_is_also_a_gradient_is_checked_by_itself():
    from opsmith.ops.upfirdn2d import upfirdn2d_sized, upfirdn2d_transposed

    assert forward_operators([upfirdn2d_sized, upfirdn2d_transposed]) == (upfirdn2d_sized,)
