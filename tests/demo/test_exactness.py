"""The error check passes what is right and refuses planted mistakes, in the value and in the gradient."""

from __future__ import annotations

import pytest
import torch

from opsmith.demo.cases import DTYPES
from opsmith.demo.exactness import _gates_inputs, measure
from opsmith.demo.slopes import POINTS, measure_slopes, published_slope
from opsmith.ops.lltm import lltm_gates

INPUTS = _gates_inputs(torch.Generator().manual_seed(0))


def check(kernel, dtype="float32"):
    return measure("lltm_gates", kernel, lltm_gates.reference, INPUTS, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_body_in_its_own_type_is_close(dtype):
    def rounded_once(gates, cell):
        outputs = lltm_gates.reference(gates.double(), cell.double())
        return tuple(output.to(gates.dtype) for output in outputs)

    value, gradient = check(rounded_once, dtype)
    assert value.is_within and gradient.is_within


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_wrong_value_is_seen(dtype):
    def wrong(gates, cell):
        hidden, new_cell = lltm_gates.reference(gates, cell)
        hidden = hidden.clone()
        hidden[3, 5] += 16 * torch.finfo(gates.dtype).eps
        return hidden, new_cell

    value, _ = check(wrong, dtype)
    assert not value.is_within


class Planted(torch.autograd.Function):
    """The right value, and a gradient with one mistake."""

    @staticmethod
    def forward(ctx, gates, cell, mistake):
        ctx.save_for_backward(gates, cell)
        ctx.mistake = mistake
        return lltm_gates.reference(gates, cell)

    @staticmethod
    def backward(ctx, *grads):
        with torch.enable_grad():
            inputs = [value.detach().requires_grad_() for value in ctx.saved_tensors]
            grad_gates, grad_cell = torch.autograd.grad(lltm_gates.reference(*inputs), inputs, grads)
        return ctx.mistake(grad_gates), grad_cell, None


MISTAKES = {
    "one sign": lambda grad: grad.index_put((torch.tensor(2), torch.tensor(2)), -grad[2, 2]),
    "one factor": lambda grad: grad * 1.01,
    "one NaN": lambda grad: grad.index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(torch.nan)),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_wrong_gradient_is_seen(mistake):
    value, gradient = check(lambda gates, cell: Planted.apply(gates, cell, mistake))
    assert value.is_within
    assert not gradient.is_within


def test_the_same_function_without_a_mistake_passes():
    value, gradient = check(lambda gates, cell: Planted.apply(gates, cell, lambda grad: grad))
    assert value.is_within and gradient.is_within


def test_outputs_of_a_wrong_shape_are_seen():
    value, _ = check(lambda gates, cell: tuple(output[:1] for output in lltm_gates.reference(gates, cell)))
    assert value.error_eps == float("inf") and not value.is_within


def test_the_published_slope_fails_where_it_is_said_to():
    slopes = dict(zip(POINTS, published_slope(torch.tensor(POINTS)).tolist(), strict=True))
    assert slopes[0.0] == 0.0
    assert slopes[88.0] == 1.0
    assert all(slopes[point] != slopes[point] for point in (88.8, 100.0, 1000.0))


def test_a_kernel_with_the_published_slope_is_refused_at_the_hard_points():
    class Elu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value)
            return torch.nn.functional.elu(value)

        @staticmethod
        def backward(ctx, grad):
            return grad * published_slope(*ctx.saved_tensors)

    def published(gates, cell):
        i, o, c = gates.chunk(3, dim=1)
        new_cell = cell + Elu.apply(c) * torch.sigmoid(i)
        return torch.tanh(new_cell) * torch.sigmoid(o), new_cell

    wrong = [slope.gate for slope in measure_slopes(["cpu"], published) if not slope.is_right]
    assert wrong == [0.0, 88.8, 100.0, 1000.0]


def test_the_reference_is_right_at_every_hard_point():
    assert all(slope.is_right for slope in measure_slopes(["cpu"], lltm_gates.reference))
