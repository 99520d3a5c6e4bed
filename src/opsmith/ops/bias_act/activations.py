"""Defines the nine activations in PyTorch, the kernels' reference, with their defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import torch
from torch import Tensor
from torch.nn import functional

from opsmith.errors import ArgumentValueError

__all__ = ["ACTIVATIONS", "Activation", "activation_funcs", "activation_of"]


@dataclass(frozen=True)
class Activation:
    """The function and its derivative, both of u and alpha; alpha and gain are the defaults.

    The derivative is written so that autograd can go through it again without meeting inf times 0.
    """

    value: Callable[[Tensor, float], Tensor]
    slope: Callable[[Tensor, float], Tensor]
    alpha: float = 0.0
    gain: float = 1.0


def _leaky_slope(u: Tensor, alpha: float) -> Tensor:
    return torch.full_like(u, alpha).masked_fill(u > 0, 1.0)


def _sigmoid_slope(u: Tensor, _alpha: float) -> Tensor:
    return torch.sigmoid(u) * torch.sigmoid(-u)


def _elu_slope(u: Tensor, _alpha: float) -> Tensor:
    return torch.where(u > 0, 1.0, torch.exp(u.clamp(max=0)))


# Klambauer et al., "Self-Normalizing Neural Networks", NeurIPS 2017, equation 14; functional.selu has the same numbers.
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def _selu_slope(u: Tensor, _alpha: float) -> Tensor:
    return _SELU_SCALE * torch.where(u > 0, 1.0, _SELU_ALPHA * torch.exp(u.clamp(max=0)))


# The gains keep the size of normally distributed numbers, as StyleGAN2 has them.
ACTIVATIONS: dict[str, Activation] = {
    "linear": Activation(lambda u, _: u, lambda u, _: torch.ones_like(u)),
    "relu": Activation(
        lambda u, _: functional.relu(u), lambda u, _: torch.ones_like(u).masked_fill(u <= 0, 0.0), gain=math.sqrt(2)
    ),
    "lrelu": Activation(functional.leaky_relu, _leaky_slope, alpha=0.2, gain=math.sqrt(2)),
    "tanh": Activation(lambda u, _: torch.tanh(u), lambda u, _: 4 * _sigmoid_slope(2 * u, 0.0)),
    "sigmoid": Activation(lambda u, _: torch.sigmoid(u), _sigmoid_slope),
    "elu": Activation(lambda u, _: functional.elu(u), _elu_slope),
    "selu": Activation(lambda u, _: functional.selu(u), _selu_slope),
    # functional.softplus is u itself from 20 on, which is 2e-9 off; this is exact.
    "softplus": Activation(lambda u, _: -functional.logsigmoid(-u), lambda u, _: torch.sigmoid(u)),
    "swish": Activation(
        lambda u, _: u * torch.sigmoid(u),
        lambda u, _: torch.sigmoid(u) * (1 + u * torch.sigmoid(-u)),
        gain=math.sqrt(2),
    ),
}


def _as_stylegan_has_it(activation: Activation) -> SimpleNamespace:
    def func(x: Tensor, alpha: float = activation.alpha, **_: object) -> Tensor:
        return activation.value(x, alpha)

    return SimpleNamespace(func=func, def_alpha=activation.alpha, def_gain=activation.gain)


# By the names of `torch_utils.ops.bias_act`: networks ask for `activation_funcs[act].def_gain`. `func(x, alpha=...)` is
# the function without the gain.
activation_funcs = MappingProxyType({name: _as_stylegan_has_it(one) for name, one in ACTIVATIONS.items()})


def activation_of(name: str) -> Activation:
    """Return the activation of a name; raises ArgumentValueError for another."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ArgumentValueError(f"bias_act(): act is {name!r:.60}, expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
