"""Operators whose results share memory with something, and others whose results do not."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

_CPU = "shared.cpp"


@opsmith.op(cpu=opsmith.native(_CPU))
def fresh(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return -x


@opsmith.op(cpu=opsmith.native(_CPU))
def contiguous_of(x: Float[Tensor, "N M"]) -> Float[Tensor, "N M"]:
    return x.contiguous()


@opsmith.op(cpu=opsmith.native(_CPU))
def first_half(x: Float[Tensor, "N"]) -> Float[Tensor, "K"]:
    return x[: x.shape[0] // 2].clone()


@opsmith.op(cpu=opsmith.native(_CPU))
def kept_buffer(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return -x


@opsmith.op(cpu=opsmith.native(_CPU), outputs=("a", "b"))
def same_twice(x: Float[Tensor, "N"]) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    return -x, -x


@opsmith.op(cpu=opsmith.native(_CPU), outputs=("a", "b"))
def fresh_twice(x: Float[Tensor, "N"]) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    return -x, -x


def reference(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 2


@torch.library.custom_op("kit_memory::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("kit_memory::without_last", mutates_args=())
def without_last(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y[:-1] = 2 * x[:-1]
    return y


@torch.library.custom_op("kit_memory::clears_first", mutates_args=())
def clears_first(x: Tensor) -> Tensor:
    y = x * 2
    x[:1] = 0
    return y


@torch.library.custom_op("kit_memory::itself", mutates_args=())
def itself(x: Tensor) -> Tensor:
    return x.mul_(2)


def itself_by_hand(x: Tensor) -> Tensor:
    """No operator of torch.ops."""
    return x.mul_(1)


def added_(x: Float[Tensor, "N"], a: Float[Tensor, "N"], b: Float[Tensor, "N"]) -> None:
    x.add_(a + 2 * b)


@torch.library.custom_op("kit_memory::added_right_", mutates_args=("x",))
def added_right_(x: Tensor, a: Tensor, b: Tensor) -> None:
    x.add_(a + 2 * b)


@torch.library.custom_op("kit_memory::added_once_", mutates_args=("x",))
def added_once_(x: Tensor, a: Tensor, b: Tensor) -> None:
    """Wrong where both are one tensor."""
    x.add_(a if a.data_ptr() == b.data_ptr() else a + 2 * b)


library = torch.library.Library("kit_memory", "FRAGMENT")
library.define("twin(Tensor x) -> Tensor")
library.impl("twin", lambda x: x, "CPU")
library.define("view_of(Tensor(a) x) -> Tensor(a)")
library.impl("view_of", lambda x: x.view(-1), "CPU")
library.define("parts(Tensor(a -> *) x) -> Tensor(a)[]")
library.impl("parts", lambda x: list(x.split(2)), "CPU")


def same(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()
