"""A backward that asks which gradients are needed: what is not needed has no elements, whoever computes it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from kit.agreement import fake_result, forms

import opsmith
from opsmith.errors import DefinitionError

FLAGS = list(itertools.product([False, True], repeat=2))

SCALED = """
@opsmith.op
def scaled(x: Float[Tensor, "*b N"], w: Float[Tensor, "N"]) -> tuple[Float[Tensor, "*b N"], Float[Tensor, "N"]]:
    return x * w, w * 2

@scaled.backward({kernel})
def scaled_backward(
    grad_out0: Float[Tensor, "*b N"] | None, grad_out1: Float[Tensor, "N"] | None, x: Float[Tensor, "*b N"],
    w: Float[Tensor, "N"], needs_grad_x: bool, needs_grad_w: bool,
) -> tuple[Float[Tensor, "*b N"], Float[Tensor, "N"]]:
    {body}
"""
BODY = """
    zero = torch.zeros_like(w)
    grad_x = None if not needs_grad_x else torch.zeros_like(x) if grad_out0 is None else grad_out0 * w
    if needs_grad_w:
        from_out0 = zero if grad_out0 is None else (grad_out0 * x).reshape(-1, len(w)).sum(0)
        grad_w = from_out0 + (zero if grad_out1 is None else 2 * grad_out1)
    else:
        grad_w = "not even a tensor"
    return grad_x, grad_w
"""
KERNEL = """
#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
void scaled_backward(View<const T, 2> grad_out0, View<const T, 1> grad_out1, View<const T, 2> x, View<const T, 1> w,
                     bool needs_grad_x, bool needs_grad_w, View<T, 2> grad_x, View<T, 1> grad_w) {
  if (!needs_grad_x && !needs_grad_w) fail("nothing is needed, so nothing should run");
  if (grad_x.numel() != (needs_grad_x ? x.numel() : 0)) fail("grad_x is ", grad_x.size[0], " by ", grad_x.size[1]);
  if (grad_w.numel() != (needs_grad_w ? w.numel() : 0)) fail("grad_w has ", grad_w.size[0]);
  for (int64_t n = 0; n < w.size[0]; ++n) {
    compute_t<T> sum = grad_out1 ? 2 * static_cast<compute_t<T>>(grad_out1(n)) : 0;
    for (int64_t b = 0; b < x.size[0]; ++b) {
      const compute_t<T> gradient = grad_out0 ? static_cast<compute_t<T>>(grad_out0(b, n)) : 0;
      if (needs_grad_x) grad_x(b, n) = static_cast<T>(gradient * static_cast<compute_t<T>>(w(n)));
      sum += gradient * static_cast<compute_t<T>>(x(b, n));
    }
    if (needs_grad_w) grad_w(n) = static_cast<T>(sum);
  }
}
"""
NATIVE = """
#include <opsmith/native.h>
#include <vector>
using namespace opsmith;

std::tuple<Tensor, Tensor> scaled_backward(const std::optional<Tensor>& grad_out0,
                                           const std::optional<Tensor>& grad_out1, const Tensor& x, const Tensor& w,
                                           bool needs_grad_x, bool needs_grad_w) {
  const auto like = [](const Tensor& tensor, bool needed) {
    return needed ? torch::stable::clone(tensor) : empty_like(tensor, std::vector<int64_t>(tensor.dim(), LEFT_OUT));
  };
  return {like(x, needs_grad_x), like(w, needs_grad_w)};
}
"""
Package = Callable[..., ModuleType]


def scaled_backward(package: Package, body: str, kernel: str = "", **files: str) -> opsmith.Operator:
    """Return the backward of an operator of two inputs and two outputs."""
    gradient = package(SCALED.format(body=body, kernel=kernel), **files).scaled.gradient
    assert isinstance(gradient, opsmith.Operator)
    return gradient


def numbers(*shape: int) -> torch.Tensor:
    """Return small whole numbers, whose sums are exact in any order."""
    return torch.randint(-4, 5, shape).float()


def agree(kernel: opsmith.Operator, body: opsmith.Operator, *arguments: Any) -> tuple[torch.Tensor, ...]:
    """Return a kernel's results after comparing them with those of the body, which is declared without the kernel."""
    actual, expected = kernel(*arguments), body(*arguments)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert forms(actual) == forms(expected) == forms(fake_result(kernel, *arguments))
    assert isinstance(actual, tuple)
    return actual


def check_forms(results: tuple[torch.Tensor, ...], x: torch.Tensor, w: torch.Tensor, flags: tuple[bool, bool]) -> None:
    """Check that each gradient has the form of its input, or no elements where it is not needed."""
    for gradient, tensor, needed in zip(results, (x, w), flags, strict=True):
        assert gradient.shape == (tensor.shape if needed else (0,) * tensor.dim())
        assert (gradient.dtype, gradient.device) == (tensor.dtype, tensor.device)
        assert gradient.is_contiguous()


@pytest.mark.compile
def test_a_view_kernel_gets_empty_views_for_what_is_not_needed(package: Package) -> None:
    backward = scaled_backward(package, BODY, 'cpu="scaled.cpp"', scaled__cpp=KERNEL)
    body = scaled_backward(package, BODY)
    batches = [(), (3,), (2, 3), (0,)]
    for batch, first, second, flags in itertools.product(batches, [False, True], [False, True], FLAGS):
        x, w = numbers(*batch, 4), numbers(4)
        gradients = numbers(*batch, 4) if first else None, numbers(4) if second else None
        check_forms(agree(backward, body, *gradients, x, w, *flags), x, w, flags)


@pytest.mark.parametrize("body", [BODY, "..."], ids=["written", "derived"])
@pytest.mark.parametrize("flags", FLAGS)
def test_a_body_s_results_take_the_same_form(package: Package, body: str, flags: tuple[bool, bool]) -> None:
    backward = scaled_backward(package, body)
    x, w, grad_out0, grad_out1 = numbers(2, 3, 4), numbers(4), numbers(2, 3, 4), numbers(4)
    arguments = (grad_out0, grad_out1, x, w, *flags)
    results = backward(*arguments)
    check_forms(results, x, w, flags)
    assert forms(results) == forms(fake_result(backward, *arguments))
    if flags[0]:
        torch.testing.assert_close(results[0], grad_out0 * w)
    if flags[1]:
        torch.testing.assert_close(results[1], (grad_out0 * x).sum((0, 1)) + 2 * grad_out1)


def test_a_derived_body_takes_an_absent_gradient_for_zero(package: Package) -> None:
    backward = scaled_backward(package, "...")
    x, w, grad_out1 = numbers(3, 4), numbers(4), numbers(4)
    grad_x, grad_w = backward(None, grad_out1, x, w, True, True)
    torch.testing.assert_close(grad_x, torch.zeros(3, 4))
    torch.testing.assert_close(grad_w, 2 * grad_out1)


def test_a_derived_body_differentiates_only_for_what_is_needed(package: Package) -> None:
    module = package("""
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * x

            @staticmethod
            def backward(ctx, gradient):
                raise AssertionError("nobody needs this gradient")

        @opsmith.op
        def plus_square(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
            return x + Square.apply(y)

        @plus_square.backward()
        def plus_square_backward(
            grad_out: Float[Tensor, "N"], x: Float[Tensor, "N"], y: Float[Tensor, "N"], needs_grad_y: bool
        ) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]: ...
    """)
    x, y, gradient = numbers(3), numbers(3), numbers(3)
    grad_x, grad_y = module.plus_square.gradient(gradient, x, y, False)
    torch.testing.assert_close(grad_x, gradient)
    assert grad_y.shape == (0,)
    with pytest.raises(AssertionError, match="nobody needs this gradient"):
        module.plus_square.gradient(gradient, x, y, True)


def test_a_body_may_return_none_for_the_only_gradient(package: Package) -> None:
    module = package("""
        @opsmith.op
        def double(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
            return x * 2

        @double.backward()
        def double_backward(grad_out: Float[Tensor, "N"], needs_grad_x: bool) -> Float[Tensor, "N"]:
            return None if grad_out[0] == 0 or not needs_grad_x else grad_out * 2
    """)
    backward = module.double.gradient
    assert backward(torch.ones(3), False).shape == (0,)
    assert backward(torch.ones(3), True).tolist() == [2, 2, 2]
    with pytest.raises(DefinitionError, match="the body returned nothing, the definition says 1 tensor"):
        backward(torch.zeros(3), True)


@pytest.mark.compile
def test_elementwise_gradients_keep_the_strides_of_the_inputs(package: Package) -> None:
    text = """
        @opsmith.op
        def times(x: Float[Tensor, "*n"], y: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
            return x * y

        @times.backward(KERNEL)
        def times_backward(
            grad_out: Float[Tensor, "*n"], x: Float[Tensor, "*n"], y: Float[Tensor, "*n"],
            needs_grad_x: bool, needs_grad_y: bool,
        ) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
            return grad_out * y if needs_grad_x else None, grad_out * x if needs_grad_y else None
        """
    kernel = package(
        text.replace("KERNEL", 'cpu="times.cpp"'),
        times__cpp="""
        #include <opsmith/kernel.h>
        using namespace opsmith;

        template <class T>
        void times_backward(View<const T, 1> grad_out, View<const T, 1> x, View<const T, 1> y, bool, bool,
                            View<T, 1> grad_x, View<T, 1> grad_y) {
          for (int64_t i = 0; i < grad_x.size[0]; ++i) grad_x(i) = static_cast<T>(grad_out(i) * y(i));
          for (int64_t i = 0; i < grad_y.size[0]; ++i) grad_y(i) = static_cast<T>(grad_out(i) * x(i));
        }
        """,
    ).times.gradient
    body = package(text.replace("KERNEL", "")).times.gradient
    for flags in FLAGS:
        inputs = [numbers(4, 5).t() for _ in range(3)]
        results = agree(kernel, body, *inputs, *flags)
        for result, needed in zip(results, flags, strict=True):
            assert (result.shape, result.stride()) == ((5, 4), (1, 5)) if needed else ((0, 0), (1, 1))
        agree(kernel, body, numbers(4, 5).t(), numbers(5, 4), numbers(5, 8)[:, ::2], *flags)


@pytest.mark.compile
def test_a_native_kernel_returns_empty_tensors(package: Package) -> None:
    kernel = 'cpu=opsmith.native("scaled.cpp")'
    backward = scaled_backward(package, "...", kernel, scaled__cpp=NATIVE.replace("LEFT_OUT", "0"))
    x, w = numbers(2, 3, 4), numbers(4)
    for flags in FLAGS:
        check_forms(backward(None, None, x, w, *flags), x, w, flags)


@pytest.mark.compile
def test_a_native_kernel_that_returns_elements_that_are_not_needed_is_refused(package: Package) -> None:
    kernel = 'cpu=opsmith.native("scaled.cpp")'
    backward = scaled_backward(package, "...", kernel, scaled__cpp=NATIVE.replace("LEFT_OUT", "1"))
    x, w = numbers(2, 3, 4), numbers(4)
    with pytest.raises(RuntimeError) as error:
        backward(None, None, x, w, False, True)
    words = "grad_x has the sizes (1, 1, 1), expected (0, 0, 0): it is not needed, as needs_grad_x says"
    assert f"scaled_backward(): the output {words}" in str(error.value)
    with pytest.raises(RuntimeError, match=r"grad_w has the sizes \(1\), expected \(0\): it is not needed"):
        backward(None, None, x, w, True, False)
