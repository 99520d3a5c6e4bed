"""Operators that take a call's arguments on trust, and the same ones that look first."""

import ctypes

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith


def _rows() -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(7, 5), torch.tensor([3, 0, 6, 6]))]


@opsmith.op(cpu="unguarded.cpp")
def rows_on_trust(table: Float[Tensor, "R N"], index: Int64[Tensor, "K"]) -> Float[Tensor, "K N"]:
    """Rows of a table; an index that is none reads elsewhere."""
    return torch.nn.functional.embedding(index, table)


@opsmith.op(cpu="unguarded.cpp")
def rows(table: Float[Tensor, "R N"], index: Int64[Tensor, "K"]) -> Float[Tensor, "K N"]:
    """Rows of a table."""
    return torch.nn.functional.embedding(index, table)


rows_on_trust.examples(_rows)
rows.examples(_rows)


@opsmith.op(cpu="unguarded.cpp")
def weighted_on_trust(x: Float[Tensor, "N"], weight: Float[Tensor, "W"]) -> Float[Tensor, "N"]:
    """Numbers times the sum of all weights, of which there may be none."""
    if weight.shape[0] == 0:
        raise ValueError("there are no weights")
    return x * weight.sum()


@opsmith.op(cpu="unguarded.cpp")
def every_on_trust(x: Float[Tensor, "N"], step: int = 2) -> Float[Tensor, "N"]:
    """Each number times its position modulo a step; a step of 0 divides by zero."""
    if step <= 0:
        raise ValueError("the step must be positive")
    return x * (torch.arange(x.shape[0]) % step)


@opsmith.op(cpu="unguarded.cpp")
def every(x: Float[Tensor, "N"], step: int = 2) -> Float[Tensor, "N"]:
    """Each number times its position modulo a step."""
    if step <= 0:
        raise ValueError("the step must be positive")
    return x * (torch.arange(x.shape[0]) % step)


@opsmith.op(cpu="unguarded.cpp")
def until_on_trust(x: Float[Tensor, "N"], steps: int = 2) -> Float[Tensor, "N"]:
    """Doubled some times; a negative number of times is waited for for ever."""
    if not 0 <= steps < 64:
        raise ValueError("the number of steps must be from 0 to 63")
    return x * 2**steps


@opsmith.op(cpu="unguarded.cpp")
def until(x: Float[Tensor, "N"], steps: int = 2) -> Float[Tensor, "N"]:
    """Doubled some times."""
    if not 0 <= steps < 64:
        raise ValueError("the number of steps must be from 0 to 63")
    return x * 2**steps


@opsmith.op(cpu="unguarded.cpp")
def scribbles(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """x; what lies before the output is written to as well."""
    return x.clone()


@opsmith.op(cpu="unguarded.cpp", outputs=("y", "doubled"), saved="doubled")
def keeps_on_trust(x: Float[Tensor, "N"], needs_doubled: bool = False) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """x^2; what only a gradient needs is written in any case."""
    return x * x, 2 * x if needs_doubled else None


@keeps_on_trust.backward()
def keeps_on_trust_backward(
    grad_y: Float[Tensor, "N"], x: Float[Tensor, "N"], doubled: Float[Tensor, "N"]
) -> Float[Tensor, "N"]:
    """The gradient of x."""
    return grad_y * doubled


def _read(tensor: Tensor, count: int) -> np.ndarray:
    """Read a tensor's memory as float32, whatever it is."""
    return np.frombuffer(ctypes.string_at(tensor.data_ptr(), 4 * count), np.float32)


@torch.library.custom_op("check_kit::product_on_trust", mutates_args=())
def product_on_trust(a: Tensor, b: Tensor) -> Tensor:
    """a * b; b is taken to be as long as a, and both to be float32."""
    return torch.from_numpy(_read(a, a.numel()) * _read(b, a.numel())).reshape(a.shape)


@torch.library.custom_op("check_kit::product_of_any_type", mutates_args=())
def product_of_any_type(a: Tensor, b: Tensor) -> Tensor:
    """a * b; sizes are looked at, types are not."""
    if a.shape != b.shape or a.layout is not torch.strided or b.layout is not torch.strided:
        raise ValueError("a and b must be dense and of one shape")
    a, b = a.contiguous(), b.contiguous()
    return torch.from_numpy(_read(a, a.numel()) * _read(b, a.numel())).reshape(a.shape)


@torch.library.custom_op("check_kit::product", mutates_args=())
def product(a: Tensor, b: Tensor) -> Tensor:
    """a * b, of one shape and float32."""
    if a.shape != b.shape or not a.dtype == b.dtype == torch.float32:
        raise ValueError("a and b must be float32 and of one shape")
    return torch.from_numpy(a.detach().numpy() * b.detach().numpy())


def raw_product(a: Tensor, b: Tensor) -> Tensor:
    """a * b, past PyTorch's dispatcher: memory is read as it is."""
    if a.shape != b.shape or not a.dtype == b.dtype == torch.float32 or a.is_meta or b.is_meta:
        raise ValueError("a and b must be float32 and of one shape")
    if a.layout is not torch.strided or b.layout is not torch.strided:
        raise ValueError("a and b must be dense")
    a, b = a.contiguous(), b.contiguous()
    return torch.from_numpy(_read(a, a.numel()) * _read(b, a.numel())).reshape(a.shape)


@torch.library.custom_op("check_kit::negate_on_trust_", mutates_args=("x",))
def negate_on_trust_(x: Tensor) -> None:
    """Turn the sign of every element, place by place."""
    if x.dtype is not torch.float32 or x.layout is not torch.strided:
        raise ValueError("x must be dense and float32")
    for index in np.ndindex(*x.shape):
        place = x.data_ptr() + 4 * sum(i * s for i, s in zip(index, x.stride(), strict=True))
        ctypes.memmove(place, (-np.frombuffer(ctypes.string_at(place, 4), np.float32)).tobytes(), 4)


@torch.library.custom_op("check_kit::negate_", mutates_args=("x",))
def negate_(x: Tensor) -> None:
    """Turn the sign of every element."""
    x.neg_()


def product_reference(a: Tensor, b: Tensor) -> Tensor:
    """Return a * b."""
    return a * b


def negate_reference(x: Tensor) -> None:
    """Turn the sign of every element."""
    x.neg_()
