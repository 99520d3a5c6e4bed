"""Gradients in float64 against finite differences, first and second order, and in every corner of a call."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from kit import gradients, natives
from kit.agreement import agree
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from opsmith.errors import GradientError

pytestmark = pytest.mark.compile


def leaf(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def fixed(*shape: int) -> Tensor:
    return leaf(*shape, seed=7).detach()


CALLS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "kernel": (lambda x: gradients.cubic(x, scale=0.5), (leaf(2, 3),)),
    "kernel, any rank": (gradients.cubic, (leaf(),)),
    "kernel, transposed": (lambda x: gradients.cubic(x.t()), (leaf(2, 3),)),
    "kernel, empty": (gradients.cubic, (leaf(0, 3),)),
    "saved output and optional tensor": (gradients.softened, (leaf(2, 3), leaf(3))),
    "optional tensor absent": (gradients.softened, (leaf(2, 3),)),
    "only the optional tensor's": (lambda w: gradients.softened(fixed(2, 3), w), (leaf(3),)),
    "only the first input's": (lambda x: gradients.softened(x, fixed(3)), (leaf(2, 3),)),
    "one output of two": (lambda x, w: gradients.softened(x, w)[1], (leaf(2, 3), leaf(3))),
    "body": (gradients.mix, (leaf(2, 3), leaf(2, 3, seed=1))),
    "body, one input's": (lambda y: gradients.mix(fixed(2, 3), y), (leaf(2, 3),)),
    "body, the same tensor twice": (lambda x: gradients.mix(x, x), (leaf(2, 3),)),
    "body, one input from another": (lambda x: gradients.mix(x, x * x), (leaf(2, 3),)),
    "kernel, one input from another": (lambda x: gradients.softened(x, x.exp().sum(0)), (leaf(2, 3),)),
    "integer output": (lambda x: gradients.largest(x)[0], (leaf(3, 4),)),
    "derived, in another order": (lambda x, w: gradients.masked(x, fixed(2, 3), w)[0], (leaf(2, 3), leaf(3))),
    "derived, some of them": (lambda w: gradients.frozen(fixed(2, 3), w), (leaf(3),)),
    "derived, native": (natives.linear, (leaf(2, 3), leaf(4, 3), leaf(4))),
    "derived, optional tensor absent": (natives.linear, (leaf(2, 3), leaf(4, 3))),
    "list, without the optional": (lambda w, a, b: gradients.levels_sum(w, [a, b]), (leaf(3), leaf(2, 3), leaf(4, 3))),
    "list, one of its tensors": (lambda a: gradients.levels_sum(fixed(3), [fixed(2, 3), a]), (leaf(4, 3),)),
    "list and optional tensor": (lambda a, e: gradients.levels_sum(fixed(3), [a, a * 2], e), (leaf(2, 3), leaf(3))),
    "lists without gradients": (lambda w: gradients.weighted_levels([fixed(2, 3)], w, []), (leaf(3),)),
    "lists without gradients, given": (lambda w, a: gradients.weighted_levels([a, a], w, [1]), (leaf(3), fixed(2, 3))),
    "passed on": (gradients.residual, (leaf(2, 3), leaf(2, 3, seed=1), leaf(3))),
    "passed on, absent": (lambda x, w: gradients.residual(x, None, w), (leaf(2, 3), leaf(3))),
    "passed on alone": (lambda skip: gradients.residual(fixed(2, 3), skip, fixed(3)), (leaf(2, 3),)),
    "passed on, the same tensor twice": (lambda x: gradients.residual(x, x), (leaf(2, 3),)),
    "a backward of the backward": (gradients.cube, (leaf(2, 3),)),
    "a gradient that is the operator itself": (lambda x: gradients.roll(x, fixed(3)), (leaf(3),)),
    "outputs that are one tensor": (gradients.same_twice, (leaf(3),)),
    "an output that is the input": (gradients.identity, (leaf(3),)),
}


@pytest.mark.parametrize("case", CALLS)
def test_first_gradients(case: str) -> None:
    function, inputs = CALLS[case]
    assert gradcheck(function, inputs)


@pytest.mark.parametrize("case", CALLS)
def test_second_gradients(case: str) -> None:
    function, inputs = CALLS[case]
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_kernels_agree_with_their_bodies_in_every_element_type(dtype: torch.dtype) -> None:
    x, weight = torch.randn(4, 6).to(dtype), torch.rand(6).to(dtype)
    tolerance = 0.2 if dtype.itemsize == 2 else 1e-4
    agree(gradients.cubic, x, tolerance=tolerance)
    y, total, exps = gradients.softened.reference(x, weight)
    torch.testing.assert_close(gradients.softened(x, weight), (y, total), rtol=tolerance, atol=tolerance)
    agree(gradients.softened.gradient, y, total, exps, x, weight, tolerance=2 * tolerance)
    agree(gradients.cubic.gradient, y, 2.0, x, tolerance=tolerance)


def test_saved_outputs_never_reach_the_caller() -> None:
    x, weight = leaf(2, 3), leaf(3)
    assert len(gradients.softened(x, weight)) == 2
    assert len(gradients.softened.torch_op(x, weight)) == 3
    with torch.no_grad():
        assert len(gradients.softened(x)) == 2


def test_outputs_and_inputs_without_gradients() -> None:
    x, mask = leaf(2, 3), leaf(2, 3, seed=1)
    y, parity = gradients.masked(x, mask, fixed(3))
    assert y.requires_grad
    assert not parity.requires_grad
    y.sum().backward()
    assert mask.grad is None
    assert x.grad is not None
    value, index = gradients.largest(leaf(2, 3))
    assert value.requires_grad
    assert not index.requires_grad


def test_what_needs_no_gradient_gets_none() -> None:
    x, weight = leaf(2, 3), fixed(3)
    gradients.softened(x, weight)[0].sum().backward()
    assert weight.grad is None
    y = leaf(2, 3)
    gradients.mix(fixed(2, 3), y).sum().backward()
    torch.testing.assert_close(y.grad, fixed(2, 3) ** 2 * torch.cos(y.detach()))


def test_the_same_tensor_twice_gets_both_gradients() -> None:
    x = leaf(2, 3)
    gradients.mix(x, x).sum().backward()
    expected = 2 * x * torch.sin(x) + x**2 * torch.cos(x)
    torch.testing.assert_close(x.grad, expected.detach())


def test_second_gradients_count_a_dependence_between_inputs_once() -> None:
    def second(function: Callable[..., Tensor]) -> Tensor:
        x = leaf(2, 3)
        (first,) = torch.autograd.grad(function(x, torch.sin(x)).sum(), x, create_graph=True)
        return torch.autograd.grad((first**2).sum(), x)[0]

    torch.testing.assert_close(second(gradients.mix), second(gradients.mix.reference))


def test_a_second_gradient_that_would_end_at_a_saved_output_is_refused(package: Callable[..., ModuleType]) -> None:
    module = package("""
        @opsmith.op(outputs=("y", "exps"), saved="exps")
        def twice_exp(x: Float[Tensor, "N"]) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
            exps = torch.exp(x)
            return 2 * exps, exps

        @twice_exp.backward()
        def twice_exp_backward(grad_y: Float[Tensor, "N"], exps: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
            return 2 * grad_y * exps
    """)
    x = leaf(3)
    module.twice_exp(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().exp())
    (first,) = torch.autograd.grad(module.twice_exp(x).sum(), x, create_graph=True)
    with pytest.raises(
        GradientError, match=r"cannot be differentiated twice: its backward reads the saved output exps"
    ):
        first.sum().backward()


def test_no_grad_and_inference_mode_record_nothing() -> None:
    x = leaf(2, 3)
    with torch.no_grad():
        assert not gradients.cubic(x).requires_grad
    with torch.inference_mode():
        assert gradients.cubic(x).is_inference()


def test_outputs_are_never_each_other_s_or_an_input_s_memory() -> None:
    x = torch.randn(3)
    first, second = gradients.same_twice(x)
    assert first.data_ptr() != second.data_ptr()
    assert gradients.identity(x).data_ptr() != x.data_ptr()


def test_gradients_reach_through_retained_and_repeated_backwards() -> None:
    x = leaf(2, 3)
    y = gradients.cubic(x).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * once)


def test_a_gradient_that_is_passed_on_is_neither_computed_nor_copied() -> None:
    skip, gradient = leaf(2, 3), fixed(2, 3)
    calls: list[object] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(function)
            return function(*args, **(kwargs or {}))

    y = gradients.residual(fixed(2, 3), skip)
    with Watch():
        (found,) = torch.autograd.grad(y, skip, gradient)
    assert found.data_ptr() == gradient.data_ptr()
    assert calls == []


def test_third_gradients_go_through_the_backward_of_the_backward() -> None:
    x = leaf(2, 3)
    found = gradients.cube(x).sum()
    for expected in (3 * x**2, 6 * x, torch.full_like(x, 6)):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        torch.testing.assert_close(found, expected)


def test_two_operators_that_are_each_other_s_gradient_have_gradients_of_any_order() -> None:
    x, by = leaf(3), fixed(3)
    gradient = gradients.roll(x, by).sin().sum()
    for _ in range(4):
        (gradient,) = torch.autograd.grad(gradient.sum(), x, create_graph=True)
    # sin is its own fourth derivative, and each takes one factor more.
    expected = (by.roll(-1) ** 4 * (x * by.roll(-1)).sin()).detach()
    torch.testing.assert_close(gradient.detach(), expected)


def test_a_derived_body_has_tangents_inside_torch_func():
    """The backward's body differentiates there, while the transform that asks for its tangents is at work."""
    x, mask, weight = fixed(2, 3), fixed(2, 3), fixed(3)

    def loss(f: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
        return lambda x: f(x, mask, weight)[0].sin().sum()

    def tangent(f: Callable[..., Any]) -> Any:
        return torch.func.jvp(torch.func.grad(loss(f)), (x,), (torch.ones_like(x),))

    found, expected = (tangent(f) for f in (gradients.masked, gradients.masked.reference))
    torch.testing.assert_close(found, expected)
    assert not torch._C._functorch.get_inplace_requires_grad_allowed()
