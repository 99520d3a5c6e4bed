"""Operators of torch.library.custom_op and Python functions: right ones, and ones with one wrong gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Matrix = Float[Tensor, "B N"]
Row = Float[Tensor, "N"]


def cubic_reference(x: Matrix, scale: Row) -> Matrix:
    """scale x^3."""
    return scale * x**3


def square_reference(x: Matrix) -> Matrix:
    """x^2."""
    return x * x


def parts_reference(x: Matrix) -> tuple[Matrix, Matrix]:
    """x^2 and 3 x."""
    return x * x, 3 * x


def save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    """Save the arguments that are tensors."""
    ctx.save_for_backward(*inputs)


def cubic_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and scale."""
    x, scale = ctx.saved_tensors
    return 3 * scale * x**2 * grad, (grad * x**3).sum(0)


def over_rows(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule of vmap that puts the new dimension before the rows; `scale` must not be batched."""

    def rule(info: Any, in_dims: Any, x: Tensor, *rest: Tensor) -> tuple[Tensor, int]:
        dims = list(in_dims)
        if any(dim is not None for dim in dims[1:]):
            size = info.batch_size
            scale = rest[0].movedim(dims[1], 0)
            x = x.expand(size, *x.shape) if dims[0] is None else x.movedim(dims[0], 0)
            return torch.stack([op(one, row) for one, row in zip(x, scale, strict=True)]), 0
        x = x.movedim(dims[0], 0)
        return op(x.reshape(-1, x.shape[-1]), *rest).reshape(x.shape), 0

    return rule


def make_cubic(
    name: str,
    backward: Any = cubic_backward,
    *,
    has_vmap: bool = True,
    has_fake: bool = True,
    has_double: bool = True,
) -> Any:
    """Return a custom operator of scale x^3 with everything registered, but for what is left out."""

    @torch.library.custom_op(f"kit_comp::{name}", mutates_args=())
    def op(x: Tensor, scale: Tensor) -> Tensor:
        if x.dtype == torch.float64 and not has_double:
            raise TypeError("x is float64, which this operator does not take")
        return scale * x.pow(3)

    if has_fake:
        op.register_fake(lambda x, scale: scale * x)
    if backward is not None:
        op.register_autograd(backward, setup_context=save_inputs)
    if has_vmap:
        op.register_vmap(over_rows(op))
    return op


cubic = make_cubic("cubic")
without_vmap = make_cubic("without_vmap", has_vmap=False)
without_gradient = make_cubic("without_gradient", None)


def _sign(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    one, two = cubic_backward(ctx, grad)
    return one, -two


def _forgets_scale(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return cubic_backward(ctx, grad)[0], None


def _assumes_contiguous(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    strides = (grad.shape[1], 1) if grad.stride(1) else (0, 0)
    return cubic_backward(ctx, torch.as_strided(grad, grad.shape, strides))


def _cuts_the_graph(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, scale = ctx.saved_tensors
    return (3 * scale * x**2 * grad).detach(), (grad * x**3).sum(0).detach()


def _halves_the_graph(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, scale = ctx.saved_tensors
    return 3 * scale * x.detach() ** 2 * grad, (grad * x**3).sum(0)


def _fails_on_empty(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, scale = ctx.saved_tensors
    return 3 * scale * x**2 * grad / float(grad.abs().max().clamp(min=1)) * float(grad.abs().max().clamp(min=1)), (
        grad * x**3
    ).sum(0)


def _by_numpy(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, scale = (tensor.detach().numpy() for tensor in ctx.saved_tensors)
    weight = grad.detach().numpy()
    return torch.from_numpy(3 * scale * x**2 * weight), torch.from_numpy((weight * x**3).sum(0))


backward_by_numpy = make_cubic("backward_by_numpy", _by_numpy)
wrong_sign = make_cubic("wrong_sign", _sign)
forgets_scale = make_cubic("forgets_scale", _forgets_scale)
assumes_contiguous = make_cubic("assumes_contiguous", _assumes_contiguous)
fails_on_empty = make_cubic("fails_on_empty", _fails_on_empty)
cuts_the_graph = make_cubic("cuts_the_graph", _cuts_the_graph)
halves_the_graph = make_cubic("halves_the_graph", _halves_the_graph)
no_double = make_cubic("no_double", has_double=False)
no_double_and_half_a_graph = make_cubic("no_double_and_half_a_graph", _halves_the_graph, has_double=False)


def _make_parts(name: str, backward: Any) -> Any:
    @torch.library.custom_op(f"kit_comp::{name}", mutates_args=())
    def op(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * x, 3 * x

    op.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))
    op.register_autograd(backward, setup_context=save_inputs)
    return op


def _parts_backward(ctx: Any, one: Tensor, two: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return 2 * x * one + 3 * two


def _one_for_both(ctx: Any, one: Tensor, two: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return 2 * x * one + 3 * (two if bool(two.any()) else one)


parts = _make_parts("parts", _parts_backward)
mixes_parts = _make_parts("mixes_parts", _one_for_both)


class OnceDifferentiable(torch.autograd.Function):
    """x^2, whose second gradient is refused."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def once(x: Tensor) -> Tensor:
    """x^2."""
    return OnceDifferentiable.apply(x)


def loses_gradients(x: Tensor) -> Tensor:
    """x^2, computed where autograd does not see it."""
    return (x.detach() * x.detach()).clone()
