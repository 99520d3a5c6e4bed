"""Three operators of the library with kernels in Triton, for `opsmith bench --import triton_twins --against triton`.

Their definitions are those of the library, as far as Triton's kernels take the arguments. Each has the gradient as
another kernel. They are compiled ahead by opsmith; `triton_calls.py` times Triton's own launch of one.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.ops.bias_act.operator import bias_activation, bias_activation_backward
from opsmith.ops.lltm.cell import lltm_gates, lltm_gates_backward
from opsmith.ops.sigmoid_focal_loss.operator import focal_loss, focal_loss_backward

__all__ = ["bias_triton", "focal_triton", "gates_triton"]

_KERNELS = "triton_kernels.py"
# Their kernels compute in float32.
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_ROWS: dict[str, Any] = {"grid": "B, cdiv(S, BLOCK)", "BLOCK": 256, "num_warps": 2}
_FLAT: dict[str, Any] = {"grid": "cdiv(shape, BLOCK)", "BLOCK": 1024}
# How many elements of how many planes a program has, a plane being those of one sample and channel. A tensor in
# channels_last order comes as planes of one element.
_PLANES: list[dict[str, Any]] = [
    {"ROWS": 1024, "BLOCK": 1, "num_warps": 4, "when": "inner == 1"},
    {"ROWS": 16, "BLOCK": 64, "num_warps": 4, "when": "inner <= 64"},
    {"ROWS": 1, "BLOCK": 1024, "num_warps": 4},
]
# The same for the backward, whose programs have some channels of all samples.
_CHANNELS: list[dict[str, Any]] = [
    {"ROWS": 128, "CHANNELS": 16, "BLOCK": 1, "num_warps": 8, "when": "inner == 1"},
    {"ROWS": 8, "CHANNELS": 1, "BLOCK": 64, "num_warps": 4, "when": "inner <= 64"},
    {"ROWS": 1, "CHANNELS": 1, "BLOCK": 1024, "num_warps": 4},
]


@opsmith.op(
    cuda=opsmith.triton(f"{_KERNELS}:gates", **_ROWS), outputs=("hidden", "new_cell"), batch="B", dtypes=_DTYPES
)
def gates_triton(
    gates: Float[Tensor, "B 3*S"], cell: Float[Tensor, "B S"]
) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
    """The pointwise part of an LLTM step, as `lltm_gates`."""
    hidden, new_cell = lltm_gates.reference(gates, cell)
    return hidden, new_cell


@gates_triton.backward(cuda=opsmith.triton(f"{_KERNELS}:gates_backward", **_ROWS), dtypes=_DTYPES)
def gates_triton_backward(
    grad_hidden: Float[Tensor, "B S"],
    grad_new_cell: Float[Tensor, "B S"],
    gates: Float[Tensor, "B 3*S"],
    new_cell: Float[Tensor, "B S"],
) -> tuple[Float[Tensor, "B 3*S"], Float[Tensor, "B S"]]:
    """Its gradients."""
    by_gates, by_cell = lltm_gates_backward.reference(grad_hidden, grad_new_cell, gates, new_cell)
    return by_gates, by_cell


@opsmith.op(cuda=opsmith.triton(f"{_KERNELS}:focal", **_FLAT), outputs="loss", dtypes=_DTYPES)
def focal_triton(
    inputs: Float[Tensor, "*shape"], targets: Float[Tensor, "*shape"], alpha: float = 0.25, gamma: float = 2.0
) -> Float[Tensor, "*shape"]:
    """The focal loss of each element, as `focal_loss`."""
    loss: Tensor = focal_loss.reference(inputs, targets, alpha, gamma)
    return loss


@focal_triton.backward(cuda=opsmith.triton(f"{_KERNELS}:focal_backward", **_FLAT), dtypes=_DTYPES)
def focal_triton_backward(
    grad_loss: Float[Tensor, "*shape"],
    inputs: Float[Tensor, "*shape"],
    targets: Float[Tensor, "*shape"],
    alpha: float,
    gamma: float,
    needs_grad_targets: bool,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Its gradients."""
    by_inputs, by_targets = focal_loss_backward.reference(grad_loss, inputs, targets, alpha, gamma, needs_grad_targets)
    return by_inputs, by_targets


@opsmith.op(
    cuda=opsmith.triton(f"{_KERNELS}:bias", grid="cdiv(N*C, ROWS), cdiv(inner, BLOCK)", configs=_PLANES),
    outputs="y",
    dtypes=_DTYPES,
)
def bias_triton(
    x: Float[Tensor, "N C *inner"],
    b: Float[Tensor, "C"] | None = None,
    act: Literal["linear", "lrelu", "swish"] = "linear",
    alpha: float = 0.0,
    gain: float = 1.0,
    clamp: float = -1.0,
) -> Float[Tensor, "N C *inner"]:
    """gain * act(x + b), as `bias_activation`; a clamp below 0 stands for none."""
    y: Tensor = bias_activation.reference(x, b, act, alpha, gain, clamp if clamp >= 0 else None)
    return y


@bias_triton.backward(
    cuda=opsmith.triton(f"{_KERNELS}:bias_backward", grid="cdiv(C, CHANNELS)", configs=_CHANNELS), dtypes=_DTYPES
)
def bias_triton_backward(
    grad_y: Float[Tensor, "N C *inner"],
    x: Float[Tensor, "N C *inner"],
    b: Float[Tensor, "C"] | None,
    act: Literal["linear", "lrelu", "swish"],
    alpha: float,
    gain: float,
    clamp: float,
) -> tuple[Float[Tensor, "N C *inner"], Float[Tensor, "C"]]:
    """Its gradients."""
    limit = clamp if clamp >= 0 else None
    by_x, by_b = bias_activation_backward.reference(grad_y, x, b, act, alpha, gain, limit, True)
    return by_x, by_b


lltm_gates.versus("triton")(gates_triton)
focal_loss.versus("triton")(focal_triton)


@bias_activation.versus("triton")
def _bias_in_triton(
    x: Tensor,
    b: Tensor | None = None,
    act: str = "linear",
    alpha: float = 0.0,
    gain: float = 1.0,
    clamp: float | None = None,
) -> Tensor:
    y: Tensor = bias_triton(x, b, act, alpha, gain, -1.0 if clamp is None else clamp)
    return y
