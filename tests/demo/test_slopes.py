"""The gradient at the hard points, and that a check of LLTM refuses planted mistakes in the value and in the gradient."""

from __future__ import annotations

import pytest
import torch

from opsmith.checker import check
from opsmith.demo.slopes import POINTS, measure_slopes, published_slope
from opsmith.ops.lltm import lltm_gates


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


def wrong_value(gates, cell):
    hidden, new_cell = lltm_gates.reference(gates, cell)
    hidden = hidden.clone()
    hidden[3, 5] += 16 * torch.finfo(gates.dtype).eps
    return hidden, new_cell


def with_gradient(mistake):
    return lambda gates, cell: Planted.apply(gates, cell, mistake)


MISTAKES = {
    "none": (with_gradient(lambda grad: grad), ()),
    "value": (wrong_value, ("value",)),
    "one sign": (
        with_gradient(lambda grad: grad.index_put((torch.tensor(2), torch.tensor(2)), -grad[2, 2])),
        ("gradient",),
    ),
    "one factor": (with_gradient(lambda grad: grad * 1.01), ("gradient",)),
    "one NaN": (
        with_gradient(lambda grad: grad.index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(torch.nan))),
        ("gradient",),
    ),
}


@pytest.mark.slow("checks an operator five times")
@pytest.mark.parametrize(("planted", "failed"), MISTAKES.values(), ids=MISTAKES)
def test_the_check_names_what_is_wrong(planted, failed):
    random = torch.Generator().manual_seed(0)
    example = (3 * torch.randn(64, 3 * 128, generator=random), torch.randn(64, 128, generator=random))
    report = check(
        planted,
        reference=lltm_gates.reference,
        examples=[example],
        devices="cpu",
        dtypes=["float32"],
        properties=["value", "gradient"],
    )
    assert report.failed == failed


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
