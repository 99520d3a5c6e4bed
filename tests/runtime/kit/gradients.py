"""Operators with gradients of every kind: kernels, bodies, and bodies derived from the forward's."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

Matrix = Float[Tensor, "B N"]
Row = Float[Tensor, "N"]


@opsmith.op(cpu="gradients.cpp", outputs="y")
def cubic(x: Float[Tensor, "*n"], *, scale: float = 2.0) -> Float[Tensor, "*n"]:
    """scale x^3."""
    return scale * x**3


@cubic.backward(cpu="gradients.cpp")
def cubic_backward(grad_y: Float[Tensor, "*n"], scale: float, x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """3 scale x^2 grad."""
    return 3 * scale * x**2 * grad_y


_TURN = torch.tensor([[0.6, -0.8], [0.8, 0.6]])


@opsmith.op(cpu="gradients.cpp", outputs="y")
def turned(x: Float[Tensor, "B 2"]) -> Float[Tensor, "B 2"]:
    """Each point turned by an angle, with a matrix of this module's."""
    return x @ _TURN.to(x.dtype)


@opsmith.op(cpu="gradients.cpp", outputs=("y", "total", "exps"), saved="exps")
def softened(x: Matrix, weight: Row | None = None) -> tuple[Matrix, Float[Tensor, "B"], Matrix]:
    """exp(x) weight, its sum over the row, and exp(x) for the backward alone."""
    exps = torch.exp(x)
    y = exps if weight is None else exps * weight
    return y, y.sum(1), exps


@softened.backward(cpu="gradients.cpp")
def softened_backward(
    grad_y: Matrix, grad_total: Float[Tensor, "B"], exps: Matrix, x: Matrix, weight: Row | None
) -> tuple[Matrix, Row]:
    """Both gradients; that of an absent weight is written and dropped."""
    grad = grad_y + grad_total[:, None]
    grad_x = grad * exps
    return grad_x if weight is None else grad_x * weight, (grad * exps).sum(0)


@opsmith.op(cpu="gradients.cpp")
def mix(x: Matrix, y: Matrix) -> Matrix:
    """x^2 sin(y), differentiated through this body."""
    return x**2 * torch.sin(y)


@opsmith.op(cpu="gradients.cpp", outputs=("value", "index"))
def largest(x: Matrix) -> tuple[Float[Tensor, "B"], Int64[Tensor, "B"]]:
    """The largest number of each row, and where it is."""
    value, index = x.max(1)
    return value, index


@largest.backward()
def largest_backward(grad_value: Float[Tensor, "B"], x: Matrix, index: Int64[Tensor, "B"]) -> Matrix:
    """The gradient goes to the largest number; a backward without kernels runs its body."""
    return torch.zeros_like(x).scatter(1, index[:, None], grad_value[:, None])


@opsmith.op(nondifferentiable=("mask", "parity"), outputs=("y", "parity"))
def masked(x: Matrix, mask: Matrix, weight: Row) -> tuple[Matrix, Matrix]:
    """x^2 mask weight; an operator without any kernel, with an argument and an output without gradients."""
    return x**2 * mask * weight, torch.remainder(x, 2)


@masked.backward(outputs=("grad_weight", "grad_x"))
def masked_backward(grad_y: Matrix, x: Matrix, mask: Matrix, weight: Row) -> tuple[Row, Matrix]: ...


@opsmith.op(nondifferentiable="x")
def frozen(x: Matrix, weight: Row) -> Matrix:
    """x^2 weight, of which only the weight has a gradient."""
    return x**2 * weight


@frozen.backward(outputs=("grad_weight",))
def frozen_backward(grad_out: Matrix, x: Matrix, weight: Row) -> Row: ...


@opsmith.op(nondifferentiable="levels")
def weighted_levels(levels: list[Float[Tensor, "_ N"]], weight: Row, pads: list[int], last: float = 1.0) -> Row:
    """A list of tensors beside a backward, and an empty list of numbers."""
    return torch.cat(levels).sum(0) * weight * last + sum(pads)


@weighted_levels.backward()
def weighted_levels_backward(grad_out: Row, levels: list[Float[Tensor, "_ N"]], weight: Row, last: float) -> Row:
    """The weight's gradient."""
    return grad_out * torch.cat(levels).sum(0) * last


@opsmith.op()
def levels_sum(weight: Row, levels: list[Float[Tensor, "_ N"]], extra: Row | None = None) -> Row:
    """The squares of every level's rows, weighted; a list and an optional tensor, differentiated through this body."""
    total = sum((level**2).sum(0) for level in levels) * weight
    return total if extra is None else total * extra


@opsmith.op()
def same_twice(x: Row) -> tuple[Row, Row]:
    """A body may return one tensor twice, or its input: the operator's outputs are still tensors of their own."""
    y = x * 2
    return y, y


@opsmith.op()
def identity(x: Row) -> Row:
    """The input itself."""
    return x


@opsmith.op(passes_gradient={"skip": "out"})
def residual(x: Matrix, skip: Matrix | None = None, weight: Row | None = None) -> Matrix:
    """x^2 weight + skip; the gradient of skip is the result's."""
    y = x**2 if weight is None else x**2 * weight
    return y if skip is None else y + skip


@residual.backward()
def residual_backward(grad_out: Matrix, x: Matrix, weight: Row | None) -> tuple[Matrix, Row]:
    """The gradients of x and weight."""
    grad = 2 * x * grad_out
    return grad if weight is None else grad * weight, (x**2 * grad_out).sum(0)


@opsmith.op(outputs="y")
def cube(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """x^3."""
    return x**3


@cube.backward()
def cube_backward(grad_y: Float[Tensor, "*n"], x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """3 x^2 grad, by a body that cannot be differentiated: only its own backward can do that."""
    return 3 * x.detach() ** 2 * grad_y.detach()


@cube_backward.backward()
def cube_backward_backward(
    grad_grad_x: Float[Tensor, "*n"], grad_y: Float[Tensor, "*n"], x: Float[Tensor, "*n"]
) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
    """The gradients of grad_y and x."""
    return 3 * x**2 * grad_grad_x, 6 * x * grad_y * grad_grad_x


@opsmith.op(outputs="y", nondifferentiable="by")
def roll(x: Row, by: Row) -> Row:
    """A linear map: x moved on by one, in a circle, times `by`."""
    return x.detach().roll(1) * by


@roll.backward(nondifferentiable="by")
def roll_back(grad_y: Row, by: Row) -> Row:
    """The transposed map, by a body that cannot be differentiated: only `gradient_is` gives it a gradient."""
    return (grad_y.detach() * by).roll(-1)


roll_back.gradient_is(roll, x="grad_grad_x", y="grad_grad_y")
