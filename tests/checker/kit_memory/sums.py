"""Sums and copies that are not the same each time, or that keep something of each call."""

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith

_CPU = "sums.cpp"


@opsmith.op(cpu=_CPU, outputs="y")
def total(x: Float[Tensor, "N"]) -> Float[Tensor, "1"]:
    return x.sum(0, keepdim=True)


@opsmith.op(cpu=_CPU, outputs="y")
def racing_total(x: Float[Tensor, "N"]) -> Float[Tensor, "1"]:
    return x.sum(0, keepdim=True)


@opsmith.op(cpu=_CPU, outputs="y")
def racing_on_own_threads(x: Float[Tensor, "N"]) -> Float[Tensor, "1"]:
    return x.sum(0, keepdim=True)


@opsmith.op(cpu=_CPU, outputs="y")
def total_by_threads(x: Float[Tensor, "N"]) -> Float[Tensor, "1"]:
    # A sum of PyTorch's own would depend on the number of threads too, and excuse the kernel.
    return torch.cumsum(x, 0)[-1:] if len(x) else x.new_zeros(1)


@opsmith.op(cpu=_CPU, outputs="y")
def counting(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()


@opsmith.op(cpu=_CPU, outputs="y")
def unset_scratch(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()


@opsmith.op(cpu=_CPU, outputs="y")
def leaking(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()


@opsmith.op(cpu=_CPU, outputs="y")
def remembering(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()


@opsmith.op(cpu=_CPU, outputs="y")
def tidy(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()


@opsmith.op(cpu=opsmith.view(_CPU, entry="tidy"), outputs="y")
def leaky_slope(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()


@leaky_slope.backward(cpu=opsmith.view(_CPU, entry="leaking_slope"), outputs="grad_x")
def leaky_slope_backward(grad_y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return grad_y.clone()


def copied(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x.clone()


def summed(x: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    return x.sum()


@torch.library.custom_op("kit_memory::summed_by_pytorch", mutates_args=())
def summed_by_pytorch(x: Tensor) -> Tensor:
    return x.sum()


@torch.library.custom_op("kit_memory::copied_in_python", mutates_args=())
def copied_in_python(x: Tensor) -> Tensor:
    return x.clone()


_kept: list[Tensor] = []


@torch.library.custom_op("kit_memory::kept_in_python", mutates_args=())
def kept_in_python(x: Tensor) -> Tensor:
    _kept.append(x.clone())
    return x.clone()


@torch.library.custom_op("kit_memory::noisy", mutates_args=())
def noisy(x: Tensor) -> Tensor:
    return x + 1e-7 * torch.rand(x.shape, generator=_random).to(x)


_random = torch.Generator().manual_seed(0)


@torch.library.custom_op("kit_memory::refusing", mutates_args=())
def refusing(x: Tensor) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        raise RuntimeError("kit_memory::refusing does not have a deterministic implementation")
    return x.clone()
