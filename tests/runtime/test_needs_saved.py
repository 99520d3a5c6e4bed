"""An output that only the backward needs is made where a gradient is recorded, and left out elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from kit.agreement import fake_result, forms
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint

import opsmith

UNIT = """
Rows = Float[Tensor, "B N"]

@opsmith.op({kernel}outputs=("y", "norm"), saved="norm")
def unit(x: Rows, eps: float = 0.0, needs_norm: bool = False, *, scale: float = 1.0) -> tuple[Rows, Float[Tensor, "B"]]:
    norm = x.square().sum(1).sqrt() + eps
    return scale * x / norm[:, None], norm if needs_norm else None

@unit.backward()
def unit_backward(
    grad_y: Rows, x: Rows, y: Rows, norm: Float[Tensor, "B"], eps: float, scale: float
) -> Rows:
    assert norm.shape == x.shape[:1]
    unscaled = y / scale
    length = norm - eps
    return scale * (grad_y - (grad_y * unscaled).sum(1, keepdim=True) * x / length[:, None]) / norm[:, None]
"""
KERNEL = """
#include <cmath>
#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
void unit(View<const T, 2> x, double eps, bool needs_norm, double scale, View<T, 2> y, View<T, 1> norm) {
  if (norm.numel() != (needs_norm ? x.size[0] : 0)) fail("norm has ", norm.size[0], " elements");
  for (int64_t i = 0; i < x.size[0]; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < x.size[1]; ++j) sum += double(x(i, j)) * double(x(i, j));
    const double length = std::sqrt(sum) + eps;
    for (int64_t j = 0; j < x.size[1]; ++j) y(i, j) = static_cast<T>(compute_t<T>(scale * double(x(i, j)) / length));
    if (needs_norm) norm(i) = static_cast<T>(static_cast<compute_t<T>>(length));
  }
}
"""
Package = Callable[..., ModuleType]


@pytest.fixture(params=["kernel", "body"])
def unit(package: Package, request: pytest.FixtureRequest) -> opsmith.Operator:
    """An operator that asks whether its norms are needed, with a kernel or by its body."""
    if request.param == "kernel":
        module = package(UNIT.format(kernel='cpu="unit.cpp", '), unit__cpp=KERNEL)
    else:
        module = package(UNIT.format(kernel=""))
    assert isinstance(module.unit, opsmith.Operator)
    return module.unit


def leaf(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64).add_(0.5).requires_grad_()


class Norms(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes how many norms each call of an operator has made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.__name__.startswith("unit.") and isinstance(result, tuple):
            self.made.append(result[1].numel())
        return result


@pytest.mark.compile
def test_it_is_made_for_a_gradient_alone(unit: opsmith.Operator) -> None:
    with Norms() as norms:
        unit(torch.rand(3, 4))
        with torch.no_grad():
            unit(leaf(3, 4))
        assert norms.made == [0, 0]
        unit(leaf(3, 4), 0.1, scale=2.0)
        assert norms.made == [0, 0, 3]


@pytest.mark.compile
def test_gradients_of_every_order_and_kind(unit: opsmith.Operator) -> None:
    x = leaf(3, 4)
    for function in (unit, lambda x: unit(x, 0.25, scale=-2.0), lambda x: checkpoint(unit, x, use_reentrant=False)):
        assert gradcheck(function, (x,))
        assert gradgradcheck(function, (x,))
    point, direction = x.detach(), torch.rand_like(x)
    expected = torch.func.jvp(lambda x: x / x.norm(dim=1)[:, None], (point,), (direction,))[1]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(point, direction)
        torch.testing.assert_close(forward_ad.unpack_dual(unit(dual)).tangent, expected)


@pytest.mark.compile
def test_transforms_of_functions(unit: opsmith.Operator) -> None:
    x, weight = torch.rand(3, 4, dtype=torch.float64) + 0.5, torch.rand(3, 4, dtype=torch.float64)

    def loss(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: (function(x) * weight).sum()

    def plain(x: Tensor) -> Tensor:
        return x / x.square().sum(-1, keepdim=True).sqrt()

    torch.testing.assert_close(torch.func.grad(loss(unit))(x), torch.func.grad(loss(plain))(x))
    batch = torch.rand(2, 3, 4, dtype=torch.float64) + 0.5
    torch.testing.assert_close(
        torch.vmap(torch.func.grad(loss(unit)))(batch), torch.vmap(torch.func.grad(loss(plain)))(batch)
    )
    torch.testing.assert_close(torch.func.hessian(loss(unit))(x), torch.func.hessian(loss(plain))(x))
    torch.testing.assert_close(torch.vmap(unit)(batch), plain(batch))


@pytest.mark.compile
def test_a_compiled_function_makes_it_for_a_gradient_alone(unit: opsmith.Operator) -> None:
    made: list[list[bool]] = []

    def look(graph: torch.fx.GraphModule, examples: Any) -> Any:
        calls = [node for node in graph.graph.nodes if "unit.default" in str(node.target)]
        made.append([node.args[2] if len(node.args) > 2 else False for node in calls])
        return make_boxed_func(graph.forward)

    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    compiled = torch.compile(lambda x: unit(x) * 2, backend=aot_autograd(fw_compiler=look), fullgraph=True)
    x = leaf(3, 4)
    with torch.no_grad():
        compiled(x)
    assert made == [[False]]
    compiled(x).sum().backward()
    assert made[1] == [True]
    expected = torch.autograd.grad((unit(x) * 2).sum(), x)[0]
    torch.testing.assert_close(x.grad, expected)


@pytest.mark.compile
def test_it_has_the_declared_form(unit: opsmith.Operator) -> None:
    x = torch.rand(3, 4)
    for needed in (False, True):
        found = unit.torch_op(x, 0.0, needed)
        assert forms(found) == forms(fake_result(unit.torch_op, x, 0.0, needed))
        assert found[1].shape == ((3,) if needed else (0,))
