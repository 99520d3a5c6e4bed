"""Operators that say something about their samples; none has a kernel, so nothing is built."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Float32, Float64, Int64, Real
from torch import Tensor

import opsmith


@opsmith.op(batch="B")
def scaled_columns(
    x: Float[Tensor, "N B"],
    scale: Float[Tensor, "B"],
    table: Float[Tensor, "K N"],
    shift: Float[Tensor, "B"] | None = None,
) -> tuple[Float[Tensor, "K B"], Float[Tensor, "B"]]:
    """The batch is the last dimension; a table belongs to all samples."""
    y = table @ x * scale
    return (y if shift is None else y + shift), x.sum(0)


@opsmith.op(batch="B")
def pooled(levels: list[Float[Tensor, "B N _"]], weight: Float[Tensor, "N"], power: int = 1) -> Float[Tensor, "B N"]:
    """A list of tensors, each with the batch."""
    return torch.stack([level.sum(2) for level in levels]).sum(0) * weight**power


@opsmith.op()
def rms(x: Float[Tensor, "*batch N"], weight: Float[Tensor, "N"]) -> Float[Tensor, "*batch N"]:
    """A group in front, and a weight for all samples."""
    return x / x.square().mean(-1, keepdim=True).sqrt() * weight


@rms.backward()
def rms_backward(
    grad_out: Float[Tensor, "*batch N"], x: Float[Tensor, "*batch N"], weight: Float[Tensor, "N"]
) -> tuple[Float[Tensor, "*batch N"], Float[Tensor, "N"]]: ...


@opsmith.op(batch=False)
def centred(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """The mean is over all elements, so they are not independent although they are a group."""
    return x - x.mean()


@centred.backward()
def centred_backward(grad_out: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Its own shapes would say that it is elementwise."""
    return grad_out - grad_out.mean()


@opsmith.op()
def running_sum(x: Float[Tensor, "*n"], dim: int) -> Float[Tensor, "*n"]:
    """An argument names one of the group's dimensions, which is another one if there is one more in front."""
    return x.cumsum(dim)


@opsmith.op(outputs="loss")
def mean_square(x: Float[Tensor, "*n"]) -> Float[Tensor, ""]:
    """A number for the whole group."""
    return x.square().mean()


@mean_square.backward()
def mean_square_backward(grad_loss: Float[Tensor, ""], x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """It has the group in every output, but depends on how many elements there are."""
    return 2 * grad_loss * x / x.numel()


@opsmith.op()
def rows_until(x: Float[Tensor, "B N"], limit: Int64[Tensor, ""]) -> Float[Tensor, "N"]:
    """The body reads a number, which PyTorch cannot batch."""
    return x[: int(limit.item())].sum(0)


@opsmith.op()
def stuffed(x: Float[Tensor, "N"]) -> Float[Tensor, "2*N"]:
    """The body writes to a tensor that it made."""
    result = torch.zeros(2 * x.shape[0], dtype=x.dtype)
    result[::2] = x
    return result


@opsmith.op()
def constant(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """One output is the input itself, and does not depend on the other."""
    return x, y


@opsmith.op()
def declared(x: Float[Tensor, "N"], factor: float = 2.0, *, shift: float = 0.0) -> Float[Tensor, "N"]:
    """With rules by hand, which leave a mark."""
    return x.flip(0) * factor + shift


def _declared_vmap(info: Any, in_dims: tuple[Any, ...], x: Tensor, factor: float = 2.0, *, shift: float = 0.0) -> Any:
    assert info.batch_size == x.shape[in_dims[0]]
    return x.movedim(in_dims[0], -1).flip(0) * factor + shift + 1000, -1


declared.vmap(_declared_vmap)


@opsmith.op(batch=False)
def sharded_by_hand(x: Float[Tensor, "N M"], factor: float) -> Float[Tensor, "N M"]:
    """Columns are independent, and only its author knows."""
    return x.flip(0) * factor


def _declared_sharding(x: Any, factor: float) -> Any:
    from torch.distributed.tensor import Replicate, Shard

    return [([Replicate()], [Replicate(), None]), ([Shard(1)], [Shard(1), None])]


sharded_by_hand.sharding(_declared_sharding)
declared.flops(lambda x, factor, *, shift: 3 * x.numel())


@opsmith.op(batch="B")
def times(x: Float[Tensor, "B N"], y: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """The backward may leave a gradient out."""
    return x * y


@times.backward()
def times_backward(
    grad_out: Float[Tensor, "B N"], x: Float[Tensor, "B N"], y: Float[Tensor, "B N"], needs_grad_x: bool
) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N"]]:
    """None stands for what is not needed."""
    return grad_out * y if needs_grad_x else None, grad_out * x


@opsmith.op()
def product(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """The same without a batch."""
    return x * y


@product.backward()
def product_backward(
    grad_out: Float[Tensor, "N"], x: Float[Tensor, "N"], y: Float[Tensor, "N"], needs_grad_x: bool
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]: ...


@opsmith.op()
def wrong(x: Float[Tensor, "N"], how: str) -> Float[Tensor, "N"]:
    """It returns something else than it says."""
    return {"count": (x, x), "dtype": x.float(), "size": x[1:], "type": 3}[how]


@opsmith.op()
def matrix_product(a: Float[Tensor, "N K"], b: Float[Tensor, "K M"]) -> Float[Tensor, "N M"]:
    """A product, differentiated through this body."""
    return a @ b


@opsmith.op()
def promoted(
    x: Float[Tensor, "N"], y: Float[Tensor, "N"], pinned: Float32[Tensor, "N"], others: list[Float[Tensor, "N"]]
) -> Float[Tensor, "N"]:
    """The default rule."""
    return x + y + pinned.to(x.dtype) + sum(others)


@opsmith.op(autocast="low", dtypes=[torch.float32, torch.float64, torch.bfloat16])
def low(x: Float[Tensor, "N"], y: Float[Tensor, "N"] | None = None, *, factor: float = 1.0) -> Float[Tensor, "N"]:
    """In autocast's type, where that is bfloat16."""
    return x * factor if y is None else x + y


@opsmith.op(autocast="float32")
def high(x: Float[Tensor, "N"], exact: Float64[Tensor, "N"]) -> Float[Tensor, "N"]:
    """In float32."""
    return x + exact.to(x.dtype)


@opsmith.op(autocast=None)
def as_given(x: Float[Tensor, "N"], y: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """In what it is given."""
    return x + y


@opsmith.op()
def any_numbers(x: Real[Tensor, "N"], y: Real[Tensor, "N"]) -> Real[Tensor, "N"]:
    """Integers too."""
    return x + y


@opsmith.op(mutates="total")
def add_to(total: Float[Tensor, "N"], x: Float[Tensor, "N"]) -> None:
    """Write to an argument."""
    total += x
