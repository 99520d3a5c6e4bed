"""View kernels with a backward of their own."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

Matrix = Float[Tensor, "B N"]
Row = Float[Tensor, "N"]


@opsmith.op(cpu="derivatives.cpp", outputs="y")
def right(x: Matrix, scale: Row) -> Matrix:
    """scale x^3."""
    return scale * x**3


@right.backward(cpu="derivatives.cpp")
def right_backward(grad_y: Matrix, x: Matrix, scale: Row) -> tuple[Matrix, Row]: ...


@opsmith.op(cpu="derivatives.cpp", outputs="y")
def short_sum(x: Matrix, scale: Row) -> Matrix:
    """scale x^3; the gradient of scale leaves the last row out."""
    return scale * x**3


@short_sum.backward(cpu="derivatives.cpp")
def short_sum_backward(grad_y: Matrix, x: Matrix, scale: Row) -> tuple[Matrix, Row]: ...


@opsmith.op(cpu="derivatives.cpp", outputs="y")
def packed(x: Matrix, scale: Row) -> Matrix:
    """scale x^3; the backward reads its first argument as if it were contiguous."""
    return scale * x**3


@packed.backward(cpu="derivatives.cpp")
def packed_backward(grad_y: Matrix, x: Matrix, scale: Row) -> tuple[Matrix, Row]: ...


@opsmith.op(cpu="derivatives.cpp", outputs="y")
def leaky(x: Row) -> Row:
    """The larger of x and 0; the gradient leaks below."""
    return torch.relu(x)


@leaky.backward(cpu="derivatives.cpp")
def leaky_backward(grad_y: Row, x: Row) -> Row: ...


@opsmith.op(cpu="derivatives.cpp", outputs="y")
def kinked(x: Row) -> Row:
    """The larger of x and 0, whose kernel has the subgradient 1 at 0, where the reference has 0."""
    return torch.relu(x)


@kinked.backward(cpu="derivatives.cpp")
def kinked_backward(grad_y: Row, x: Row) -> Row: ...


@opsmith.op
def scaled(x: Row, *, scale: float = 2.0, steps: list[int] = [2, 1]) -> Row:  # noqa: B006 - never changed
    """scale x^2, with arguments that go by name alone."""
    return scale * x**2 * sum(steps)


@opsmith.op(outputs=("y", "norm"), saved="norm")
def once(x: Matrix) -> tuple[Matrix, Float[Tensor, "B"]]:
    """Each row divided by its norm. The backward does not take x, so second gradients are refused."""
    norm = x.square().sum(1).sqrt()
    return x / norm[:, None], norm


@once.backward()
def once_backward(grad_y: Matrix, y: Matrix, norm: Float[Tensor, "B"]) -> Matrix:
    """The part of the gradient that is orthogonal to y, divided by the norm."""
    return (grad_y - (grad_y * y).sum(1, keepdim=True) * y) / norm[:, None]
