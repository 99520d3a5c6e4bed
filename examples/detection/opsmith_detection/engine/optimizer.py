"""Optimizers and their learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.sgd import sgd

from opsmith_detection.config import SolverConfig
from opsmith_detection.models.norms import running_statistics

__all__ = ["Average", "build_optimizer", "rate_at", "set_rate"]

_NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)
_ARGUMENTS_OF_SGD = ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")
_START = 1e-3  # of the rate, at the first step of the warm-up
_DROP = 0.1  # of the rate, at each milestone


def build_optimizer(model: nn.Module, solver: SolverConfig) -> torch.optim.Optimizer:
    """Make the optimizer of all parameters that are trained.

    As in torchvision's detection references, every parameter decays, unless `solver.norm_weight_decay` gives the weights
    and biases of normalisations a decay of their own: 0 in torchvision's recipes with AdamW.

    The rate is a tensor on the parameters' device, so that a CUDA graph reads what `set_rate` wrote.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": trained, "weight_decay": solver.weight_decay}]
    if solver.norm_weight_decay is not None:
        norms = {p for m in model.modules() if isinstance(m, _NORMS) for p in m.parameters(recurse=False)}
        groups[0]["params"] = [p for p in trained if p not in norms]
        groups.append({"params": [p for p in trained if p in norms], "weight_decay": solver.norm_weight_decay})
    rate = torch.zeros((), device=trained[0].device)
    if solver.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=rate, fused=True)
    is_sharded = any(isinstance(p, DTensor) for p in trained)
    return (_ShardedSGD if is_sharded else torch.optim.SGD)(groups, lr=rate, momentum=solver.momentum, fused=True)


class _ShardedSGD(torch.optim.SGD):
    """SGD on the part of each parameter that this process holds.

    PyTorch's fused kernel takes no DTensors, and without it a CUDA graph would keep the rate that it was captured with.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move the parameters that have gradients."""
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            for p in moved:
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
            gradients = _local(p.grad for p in moved)
            velocities: list[Tensor | None] = [*_local(self.state[p]["momentum_buffer"] for p in moved)]
            settings = {name: group[name] for name in _ARGUMENTS_OF_SGD}
            sgd(_local(moved), gradients, velocities, fused=True, **settings)


def rate_at(step: int, solver: SolverConfig, images: int) -> float:
    """Return the learning rate of a step (from 0), for `images` images a step on all devices together.

    It grows linearly with the images (Goyal et al., 2017), and in the first `warm_up_steps` steps with the step. Then it
    drops to a tenth at each milestone, or follows half a cosine to zero (Loshchilov and Hutter, 2016).
    """
    rate = solver.rate * images / 16
    if step < solver.warm_up_steps:
        return rate * (_START + (1 - _START) * step / solver.warm_up_steps)
    if solver.schedule == "cosine":
        warm = solver.warm_up_steps
        return rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, solver.steps - warm)))
    return rate * _DROP ** sum(step >= milestone * solver.steps for milestone in solver.milestones)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters, without a synchronisation."""
    for group in optimizer.param_groups:
        group["lr"].fill_(rate)


class Average:
    """An exponential moving average of the parameters that are trained, and of the running statistics of batch norm.

    Statistics of now do not fit averaged weights. In step n the average moves by 1 - min(decay, (1 + n) / (10 + n)) towards
    them, so that short trainings forget their first weights, too.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        trained = {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad}
        statistics = running_statistics(model)
        averaged = trained | statistics
        self.decay = decay
        self.tensors = {name: tensor.clone() for name, tensor in averaged.items()}
        self.statistics = [self.tensors[name] for name in statistics]
        self._average, self._current = _local(self.tensors.values()), _local(averaged.values())
        self._move = torch.zeros((), device=self._current[0].device)

    def set_step(self, step: int) -> None:
        """Say which step comes next, without a synchronisation."""
        self._move.fill_(1 - min(self.decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self) -> None:
        """Take in the model of now."""
        difference = torch._foreach_sub(self._current, self._average)
        torch._foreach_mul_(difference, self._move)
        torch._foreach_add_(self._average, difference)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the model have the averages within the context."""
        own = [tensor.clone() for tensor in self._current]
        torch._foreach_copy_(self._current, self._average)
        try:
            yield
        finally:
            torch._foreach_copy_(self._current, own)


def _local(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return the part of each tensor that this process holds."""
    return [t.to_local() if isinstance(t, DTensor) else t for t in tensors]
