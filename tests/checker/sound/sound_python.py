"""A correct operator of torch.library.custom_op's, with a rule for everything, and a plain function."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


@torch.library.custom_op("opsmith_test_sound::attend", mutates_args=())
def attend(q: Tensor, k: Tensor) -> Tensor:
    """The weights of attention."""
    return torch.softmax(q @ k.t(), 1)


@attend.register_fake
def _(q: Tensor, k: Tensor) -> Tensor:
    return q.new_empty(q.shape[0], k.shape[0])


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    q, k, _ = ctx.saved_tensors
    weights = torch.softmax(q @ k.t(), 1)
    inner = weights * (grad - (grad * weights).sum(1, keepdim=True))
    return inner @ k, inner.t() @ q


attend.register_autograd(_backward, setup_context=_setup)


@attend.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], q: Tensor, k: Tensor) -> tuple[Tensor, int]:
    qs = [q if in_dims[0] is None else q.select(in_dims[0], n) for n in range(info.batch_size)]
    ks = [k if in_dims[1] is None else k.select(in_dims[1], n) for n in range(info.batch_size)]
    return torch.stack([attend(one, other) for one, other in zip(qs, ks, strict=True)]), 0


def reference(q: Float[Tensor, "A N"], k: Float[Tensor, "B N"]) -> Float[Tensor, "A B"]:
    return torch.softmax(q @ k.t(), 1)


def function(q: Tensor, k: Tensor) -> Tensor:
    """The same as a plain function of Python's."""
    return (q @ k.t()).softmax(dim=1)


OPERATORS: dict[str, tuple[Any, Any]] = {"attend": (attend, reference), "function": (function, reference)}
