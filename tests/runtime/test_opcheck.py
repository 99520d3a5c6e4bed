"""PyTorch's own judgement of every operator: torch.library.opcheck, and compiled functions that contain them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from kit import arguments, elementwise, gradients, natives, shapes
from torch import Tensor

import opsmith

pytestmark = pytest.mark.compile


def t(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def g(*shape: int) -> Tensor:
    return t(*shape).requires_grad_()


def image() -> Tensor:
    return t(2, 4, 6, 6).contiguous(memory_format=torch.channels_last)


INDEX = torch.tensor([1, 0])
SAMPLES: list[tuple[opsmith.Operator, tuple[Any, ...], dict[str, Any]]] = [
    (arguments.every_scalar, (g(3), 1, 0.5, True, "s", [1], [0.5]), {"label": "x", "double": 2.0}),
    (arguments.shift, (g(2, 3), g(3)), {}),
    (arguments.shift, (t(2, 3).t(),), {"rows": t(3)}),
    (arguments.pyramid, ([g(1, 2, 4, 4), g(1, 2, 2, 2)], torch.rand(2)), {}),
    (arguments.crop, (t(2, 3, 4, 4), torch.zeros(2, 4), INDEX, 2, 2), {}),
    (arguments.pick, (g(3), INDEX.short(), g(2)), {}),
    (shapes.split_gates, (g(2, 9), g(5)), {}),
    (shapes.upfir, (t(2, 5), torch.rand(3), 2, 1, 1, 1), {}),
    (shapes.row_sums, (g(2, 3, 4),), {}),
    (shapes.outer, (g(2, 3), g(2, 4)), {}),
    (shapes.middle, (g(2, 3, 4, 5),), {}),
    (shapes.column_count, (t(2, 3),), {}),
    (shapes.affine, (g(3), g()), {}),
    (shapes.row_max, (g(2, 3),), {}),
    (shapes.halve, (image().requires_grad_(), 2), {}),
    (elementwise.axpy, (None, g(2, 3), g(2, 3)), {}),
    (elementwise.axpy, (t(2, 3).t(), t(2, 3).t(), t(2, 3).t()), {}),
    (elementwise.select, (t(2, 3) > 0, g(2, 3), g(2, 3)), {}),
    (elementwise.scale_, (t(2, 6)[:, ::2], 2.0), {}),
    (elementwise.accumulate, (t(6)[::2], t(2, 3), INDEX[:1].clone()), {}),
    (elementwise.zero_diagonal, (t(3, 3).t(),), {}),
    (natives.positives, (t(5),), {}),
    (natives.linear, (g(2, 3), g(4, 3), g(4)), {}),
    (natives.linear, (g(2, 3), g(4, 3)), {}),
    (natives.increment_, (INDEX.clone(),), {}),
    (gradients.cubic, (g(2, 3),), {"scale": 0.5}),
    (gradients.softened, (g(2, 3), g(3)), {}),
    (gradients.softened, (g(2, 3),), {}),
    (gradients.mix, (g(2, 3), g(2, 3)), {}),
    (gradients.largest, (g(2, 3),), {}),
    (gradients.masked, (g(2, 3), t(2, 3), g(3)), {}),
    (gradients.frozen, (t(2, 3), g(3)), {}),
    (gradients.levels_sum, (g(3), [g(2, 3), g(1, 3)], g(3)), {}),
    (gradients.weighted_levels, ([t(2, 3), t(1, 3)], g(3), []), {}),
    (gradients.same_twice, (g(3),), {}),
    (gradients.identity, (g(3),), {}),
    (gradients.cubic_backward, (g(3), 2.0, g(3)), {}),
    (gradients.softened_backward, (g(2, 3), g(2), g(2, 3), g(2, 3), g(3)), {}),
    (natives.linear_backward, (g(2, 4), g(2, 3), g(4, 3), None), {}),
]
IDS = [f"{index}-{operator.definition.name}" for index, (operator, _, _) in enumerate(SAMPLES)]


@pytest.mark.parametrize(("operator", "args", "kwargs"), SAMPLES, ids=IDS)
def test_opcheck(operator: opsmith.Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    found = torch.library.opcheck(operator.torch_op, args, kwargs)
    assert found == dict.fromkeys(found, "SUCCESS")
    assert len(found) == 4


COMPILED: list[tuple[Callable[..., Any], tuple[Tensor, ...]]] = [
    (lambda x: gradients.cubic(x, scale=3.0) * 2, (t(4, 6),)),
    (lambda x, w: gradients.softened(x + 1, w)[1] * 2, (t(4, 6), t(6))),
    (lambda x, w, b: natives.linear(x, w, b).relu(), (t(4, 6), t(3, 6), t(3))),
    (lambda x, y: gradients.mix(x, x * y), (t(4, 6), t(4, 6))),
    (lambda x: shapes.row_max(elementwise.axpy(None, x, x))[0], (t(4, 6),)),
    (lambda w, a: gradients.levels_sum(w, [a, a[1:] * 2]), (t(6), t(4, 6))),
    (lambda x: shapes.halve(x, 2).sum((2, 3)), (image(),)),
    (lambda x: shapes.outer(x, x[:, 1:]), (t(4, 6),)),
    (lambda x: gradients.turned(x * 2), (t(4, 2),)),
]


@pytest.mark.parametrize(("function", "inputs"), COMPILED)
def test_compiled_forward_and_backward_in_one_graph(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    for scale in (1, 2):  # a second size must not need a second graph
        grown = [torch.cat([tensor] * scale) if tensor.dim() == 2 and len(inputs) == 1 else tensor for tensor in inputs]
        results = []
        for run in (function, compiled):
            leaves = [tensor.clone().requires_grad_() for tensor in grown]
            out = run(*leaves)
            out.sum().backward()
            results.append((out.detach(), [leaf.grad for leaf in leaves]))
        torch.testing.assert_close(results[1], results[0])


def test_an_operator_may_be_called_first_inside_a_compiled_function(package: Callable[..., ModuleType]) -> None:
    module = package(
        """
        @opsmith.op(cpu="twice.cpp")
        def twice(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
            return x * 2

        @twice.backward()
        def twice_backward(grad_out: Float[Tensor, "*n"], x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]: ...
        """,
        twice__cpp="""
        #include <opsmith/kernel.h>
        template <class T>
        void twice(opsmith::View<const T, 1> x, opsmith::View<T, 1> out) {
          for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(2 * opsmith::compute_t<T>(x(n)));
        }
        """,
    )

    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def step(x: Tensor) -> Tensor:
        return module.twice(x + 1).sum()

    assert not module.twice.is_loaded
    x = torch.zeros(3, requires_grad=True)
    step(x).backward()
    assert module.twice.is_loaded
    assert x.grad.tolist() == [2, 2, 2]
