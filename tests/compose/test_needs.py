"""Which gradients are computed: those that are asked for, and no others; and where none are recorded."""

from __future__ import annotations

import itertools

import pytest
import torch
from compose_kit.table import FORWARD, Case, each_case, each_operator
from torch import Tensor, nn

from opsmith.ops.add2 import add2
from opsmith.ops.lltm import LLTMCell, lltm_gates
from opsmith.ops.sigmoid import sigmoid

pytestmark = pytest.mark.compile

_SUBSETS = [
    pytest.param(case, needed, id=f"{case.name}-{''.join(map(str, needed))}")
    for case in FORWARD
    for size in range(1, len(case.shapes))
    for needed in itertools.combinations(range(len(case.shapes)), size)
]


@pytest.mark.parametrize(("case", "needed"), _SUBSETS)
def test_some_arguments_need_a_gradient(case: Case, needed: tuple[int, ...]):
    def run(total) -> list[Tensor | None]:
        arguments = [tensor.requires_grad_(i in needed) for i, tensor in enumerate(case.make(requires_grad=False))]
        total(*arguments).backward()
        return [argument.grad for argument in arguments]

    found = run(case.total)
    assert [i for i, gradient in enumerate(found) if gradient is not None] == list(needed)
    torch.testing.assert_close(found, run(case.expected_total))


@each_operator
def test_every_output_alone(case: Case):
    """The gradients of the other outputs are undefined then, which counts as zero."""
    count = len(case.found(*case.make()))
    for index in range(count):
        arguments = case.make()
        found, expected = (
            torch.autograd.grad(f(*arguments)[index].sin().sum(), arguments, allow_unused=True, materialize_grads=True)
            for f in (case.found, case.expected)
        )
        torch.testing.assert_close(found, expected)


@each_operator
def test_an_unused_output_may_be_gone(case: Case):
    arguments = case.make()
    last = case.found(*arguments)[-1]
    torch.autograd.grad(last.sum(), arguments[0], allow_unused=True)


@each_case
def test_outputs_need_a_gradient_where_an_argument_does(case: Case):
    assert not any(output.requires_grad for output in case.found(*case.make(requires_grad=False)))
    assert all(output.grad_fn is not None for output in case.found(*case.make()))


@each_case
def test_no_grad_and_inference_mode(case: Case):
    arguments = case.make()
    expected = case.expected(*arguments)
    with torch.no_grad():
        quiet = case.found(*arguments)
    assert not any(output.requires_grad for output in quiet)
    with torch.inference_mode():
        inferred = case.found(*arguments)
        of_inference = case.found(*(argument.clone() for argument in arguments))
    assert all(output.is_inference() for output in (*inferred, *of_inference))
    for results in (quiet, inferred, of_inference):
        torch.testing.assert_close(results, expected)


@each_operator
def test_inference_tensors_outside_of_inference_mode(case: Case):
    with torch.inference_mode():
        arguments = tuple(argument.clone() for argument in case.make(requires_grad=False))
    results = case.found(*arguments)
    assert not any(result.requires_grad or result.is_inference() for result in results)
    torch.testing.assert_close(results, case.expected(*arguments))


def test_an_inference_tensor_cannot_be_saved():
    with torch.inference_mode():
        gates = torch.randn(3, 12)
    for function in (lltm_gates, lambda gates, cell: (torch.mul(gates[:, :4], cell),)):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            function(gates, torch.randn(3, 4, requires_grad=True))


@each_operator
def test_enable_grad_inside_no_grad(case: Case):
    with torch.no_grad(), torch.enable_grad():
        assert all(output.requires_grad for output in case.found(*case.make()))


def test_parameters_and_buffers_as_arguments():
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Parameter(torch.randn(3))
            self.origin = nn.Buffer(torch.randn(3))

        def forward(self, x: Tensor) -> Tensor:
            return add2(add2(x, self.offset), self.origin)

    module = Shift()
    x = torch.randn(3)
    result = module(x)
    assert type(result) is Tensor
    torch.testing.assert_close(result, x + module.offset + module.origin)
    result.sum().backward()
    assert module.offset.grad.tolist() == [1, 1, 1]
    assert module.origin.grad is None
    assert set(module.state_dict()) == {"offset", "origin"}


def test_frozen_parameters_get_no_gradient():
    cell = LLTMCell(2, 4)
    cell.weight.requires_grad_(False)
    cell(torch.randn(3, 2))[0].sum().backward()
    assert cell.weight.grad is None
    assert cell.bias.grad.abs().sum() > 0


def test_a_leaf_that_is_both_arguments_and_a_shared_subgraph():
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y = sigmoid(x)
    add2(add2(y, y), sigmoid(y)).sum().backward()
    z = x.detach().requires_grad_()
    t = torch.sigmoid(z)
    (2 * t + torch.sigmoid(t)).sum().backward()
    torch.testing.assert_close(x.grad, z.grad)


def test_gradients_accumulate_into_grad():
    x = torch.randn(3, requires_grad=True)
    for _ in range(2):
        sigmoid(x).sum().backward()
    once = torch.autograd.grad(torch.sigmoid(x).sum(), x)[0]
    torch.testing.assert_close(x.grad, 2 * once)


def test_both_gradients_of_a_sum_may_be_changed_apart():
    """The two gradients of add2 are one value; writing to one must not change the other."""
    a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    add2(a, b).sum().backward()
    a.grad.add_(1)
    assert a.grad.tolist() == [2, 2, 2]
    assert b.grad.tolist() == [1, 1, 1]
