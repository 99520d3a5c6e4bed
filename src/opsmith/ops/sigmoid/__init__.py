"""sigmoid: the logistic function, with a backward that needs only its result."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

import opsmith

__all__ = ["Sigmoid", "sigmoid", "sigmoid_backward"]


@opsmith.op(cpu="sigmoid.cpp", cuda="sigmoid.cu", outputs="y")
def sigmoid(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return 1 / (1 + exp(-x)), element by element; float16 and bfloat16 are computed in float32."""
    return torch.sigmoid(x)


@sigmoid.backward(cpu="sigmoid.cpp", cuda="sigmoid.cu")
def sigmoid_backward(grad_y: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return grad_y * y * (1 - y): from the result, because exp(-x) would overflow for the same x."""
    return grad_y * y * (1 - y)


class Sigmoid(nn.Module):
    """`sigmoid` as a module, for a tensor of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the sigmoid of x."""
        result: Tensor = sigmoid(x)
        return result
