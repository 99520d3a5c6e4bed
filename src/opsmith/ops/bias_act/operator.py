"""Defines the operator behind bias_act, for tensors [N, C, ...], and its gradient."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

import opsmith
from opsmith.ops._filters.arguments import check_clamp
from opsmith.ops.bias_act.activations import activation_of

__all__ = ["bias_activation", "bias_activation_backward"]


@opsmith.op(cpu="bias_act.cpp", cuda="bias_act.cu", outputs="y", batch=("N", "C"))
def bias_activation(
    x: Float[Tensor, "N C *inner"],
    b: Float[Tensor, "C"] | None = None,
    act: str = "linear",
    alpha: float = 0.0,
    gain: float = 1.0,
    clamp: float | None = None,
) -> Float[Tensor, "N C *inner"]:
    """Return gain * act(x + b), clamped to [-clamp, clamp]; alpha is lrelu's slope. Call it through `bias_act`.

    A NaN is not clamped.
    """
    check_clamp(clamp)
    y = activation_of(act).value(_shifted(x, b), alpha) * gain
    # The gradient of torch.clamp at the limit itself was 1 before torch 2.15 and is 0 since; that of hardtanh is 0 in all.
    return y if clamp is None else functional.hardtanh(y, -clamp, clamp)


@bias_activation.backward(cpu="bias_act.cpp", cuda="bias_act.cu")
def bias_activation_backward(
    grad_y: Float[Tensor, "N C *inner"],
    x: Float[Tensor, "N C *inner"],
    b: Float[Tensor, "C"] | None,
    act: str,
    alpha: float,
    gain: float,
    clamp: float | None,
    needs_grad_b: bool,
) -> tuple[Float[Tensor, "N C *inner"], Float[Tensor, "C"]]:
    """The gradients, from the input again: y before rounding shows what was clamped.

    Where y is the limit itself the gradient is 0, as in StyleGAN's kernels. The second gradient goes through this body.
    """
    check_clamp(clamp)
    activation, u = activation_of(act), _shifted(x, b)
    grad_x = grad_y * (activation.slope(u, alpha) * gain)
    if clamp is not None:
        grad_x = torch.where((activation.value(u, alpha) * gain).abs() >= clamp, 0.0, grad_x)
    dims = [dim for dim in range(x.ndim) if dim != 1]
    return grad_x, grad_x.sum(dims) if needs_grad_b else x.new_empty(0)


@bias_activation.examples
def _examples() -> list[dict[str, object]]:
    """Calls beyond the defaults: each activation, with a bias, a gain and a limit that some elements reach."""
    random = torch.Generator().manual_seed(0)
    x, b = torch.randn(3, 5, 7, 4, generator=random), torch.randn(5, generator=random)
    numbers = {"alpha": 0.2, "gain": 1.5}
    calls: list[dict[str, object]] = []
    for act in ("relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"):
        calls.append({"x": x, "b": b, "act": act, **numbers, "clamp": 0.75})
    for clamp in (None, 0.0):
        calls.append({"x": x, "b": None, "act": "lrelu", **numbers, "clamp": clamp})
    return calls


def _shifted(x: Tensor, b: Tensor | None) -> Tensor:
    return x if b is None else x + b.reshape(-1, *[1] * (x.ndim - 2))
