"""The operator as a module."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from opsmith.ops.mlp.operator import mlp

__all__ = ["MLP"]


class MLP(nn.Module):
    """A perceptron with one hidden layer and ReLU, in place of Sequential(Linear, ReLU, Linear).

    MLP(F, H, O) maps [..., F] to [..., O]. Its parameters `weight1` [H F], `bias1` [H], `weight2` [O H] and `bias2` [O]
    are drawn as `torch.nn.Linear` draws them, uniform in +-1/sqrt(F) and +-1/sqrt(H).
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        out_features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = (in_features, hidden_features, out_features)
        if min(sizes) < 1:
            raise ValueError(f"in_features, hidden_features and out_features must be positive, found {sizes}")
        self.in_features, self.hidden_features, self.out_features = sizes
        self.weight1 = nn.Parameter(torch.empty(hidden_features, in_features, device=device, dtype=dtype))
        self.bias1 = nn.Parameter(torch.empty(hidden_features, device=device, dtype=dtype))
        self.weight2 = nn.Parameter(torch.empty(out_features, hidden_features, device=device, dtype=dtype))
        self.bias2 = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        for weight, bias in ((self.weight1, self.bias1), (self.weight2, self.bias2)):
            bound = 1.0 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"{self.in_features}, {self.hidden_features}, {self.out_features}"

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Return [..., O] for [..., F]."""
        if input.dim() == 0:
            raise ValueError("MLP takes a tensor of at least 1 dimension, [..., F]")
        rows = input.reshape(-1, input.shape[-1]) if input.dim() != 2 else input
        output: Tensor = mlp(rows, self.weight1, self.bias1, self.weight2, self.bias2)
        return output.reshape(*input.shape[:-1], self.out_features) if input.dim() != 2 else output
