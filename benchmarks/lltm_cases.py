"""Calls of lltm_sequence for `opsmith bench`, with the initial parameters of the module, which keep the cells finite."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["small"]

Call = tuple[Tensor, ...]


def small() -> dict[str, Call]:
    """A long sequence of small states, and a wide state whose weights are more than the cache next to the core holds."""
    return dict([_named(100, 16, 32, 128), _named(50, 2, 256, 512)])


def _named(steps: int, batch: int, features: int, state: int) -> tuple[str, Call]:
    random = torch.Generator().manual_seed(0)
    bound = state**-0.5
    weight = torch.empty(3 * state, state + features).uniform_(-bound, bound, generator=random)
    bias = torch.empty(3 * state).uniform_(-bound, bound, generator=random)
    shapes = (steps, batch, features), (batch, state), (batch, state)
    inputs = (torch.randn(shape, generator=random) for shape in shapes)
    return f"T {steps}, B {batch}, I {features}, S {state}", (*inputs, weight, bias)
