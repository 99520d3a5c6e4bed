"""The operator and its gradient."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

import opsmith

__all__ = ["mlp", "mlp_backward"]

# Two files, because the CPU has its own matrix products. One library holds both, so their functions' names differ.
_CPU = "mlp_cpu.cpp"
_CUDA = opsmith.native("mlp_gpu.cpp", "mlp_small_forward.cu", "mlp_small_backward.cu", "mlp_large.cu")


@opsmith.op(
    cpu=opsmith.native(_CPU, entry="mlp_cpu"),
    cuda=_CUDA,
    outputs=("output", "hidden"),
    saved="hidden",
    batch="B",
    autocast="low",
)
def mlp(
    input: Float[Tensor, "B F"],  # noqa: A002 -- the name that torch.nn's layers use
    weight1: Float[Tensor, "H F"],
    bias1: Float[Tensor, "H"],
    weight2: Float[Tensor, "O H"],
    bias2: Float[Tensor, "O"],
) -> tuple[Float[Tensor, "B O"], Float[Tensor, "B H"]]:
    """Return relu(input weight1^T + bias1) weight2^T + bias2, [B O]; the weights lie as `torch.nn.Linear` has them.

    float16, bfloat16, float32 or float64; sums are taken in float32 or wider. A NaN goes through the ReLU. The hidden
    activations [B H] are kept for the gradient, and nothing else is but the arguments.
    """
    hidden = torch.relu(functional.linear(input, weight1, bias1))
    return functional.linear(hidden, weight2, bias2), hidden


@mlp.examples
def _large_layers() -> list[dict[str, Tensor]]:
    """Layers so large that in bfloat16 the CPU leaves the products to PyTorch."""
    random = torch.Generator().manual_seed(0)
    shapes = {"input": (128, 96), "weight1": (128, 96), "bias1": (128,), "weight2": (64, 128), "bias2": (64,)}
    return [{name: torch.randn(shape, generator=random) / shape[-1] ** 0.5 for name, shape in shapes.items()}]


@mlp.backward(cpu=opsmith.native(_CPU, entry="mlp_backward_cpu"), cuda=_CUDA)
def mlp_backward(
    grad_output: Float[Tensor, "B O"],
    input: Float[Tensor, "B F"],  # noqa: A002
    weight1: Float[Tensor, "H F"],
    bias1: Float[Tensor, "H"],
    weight2: Float[Tensor, "O H"],
    bias2: Float[Tensor, "O"],
    hidden: Float[Tensor, "B H"],
    needs_grad_input: bool = True,
    needs_grad_weight1: bool = True,
    needs_grad_weight2: bool = True,
) -> tuple[Float[Tensor, "B F"], Float[Tensor, "H F"], Float[Tensor, "H"], Float[Tensor, "O H"], Float[Tensor, "O"]]:
    """The gradients of all five inputs; ReLU's slope at 0 is 0, and at NaN it is 1, as PyTorch has it.

    Products that are not needed are left out and have no elements: the first layer of a network needs no gradient of
    its input. The biases are not read; they are here because a second gradient goes through the forward's body, which
    needs every input.
    """
    grad_hidden = grad_output @ weight2
    grad_linear = torch.where(hidden <= 0, torch.zeros_like(grad_hidden), grad_hidden)
    return (
        grad_linear @ weight1 if needs_grad_input else input.new_empty(0, 0),
        grad_linear.t() @ input if needs_grad_weight1 else weight1.new_empty(0, 0),
        grad_linear.sum(dim=0),
        grad_output.t() @ hidden if needs_grad_weight2 else weight2.new_empty(0, 0),
        grad_output.sum(dim=0),
    )
