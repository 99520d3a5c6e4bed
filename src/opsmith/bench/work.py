"""How much work is a call at least? Bytes from the definition, and operations as PyTorch counts them or as declared.

Every input is read once and every output written once: no kernel moves less, and one that keeps intermediate results on
the chip moves no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from opsmith.bench.competitors import Phase, differentiable
from opsmith.bench.workload import tensors_in
from opsmith.check.subject import Subject
from opsmith.spec.gradient import Argument

__all__ = ["Work", "work_of"]


@dataclass(frozen=True)
class Work:
    """The least that a call moves, in bytes, and the operations it takes."""

    moved: int
    flops: int


def work_of(subject: Subject, phase: Phase, values: Mapping[str, Any]) -> Work:
    """Return the work of a call with these arguments."""
    leaves = differentiable(subject, values)
    given = {
        name: value.detach().requires_grad_() if phase != "forward" and name in leaves else value
        for name, value in values.items()
    }
    with FlopCounterMode(display=False) as forward:
        results = subject.reference(*subject.arguments(given))
    outputs = [
        item for item in (results if isinstance(results, tuple | list) else [results]) if isinstance(item, Tensor)
    ]
    visible = _visible(subject, outputs)
    forward_work = Work(_bytes(tensors_in(values)) + _bytes(visible), forward.get_total_flops())
    if phase == "forward":
        return forward_work
    wanted = [output for output in visible if output.requires_grad]
    with FlopCounterMode(display=False) as backward:
        grads = torch.autograd.grad(
            wanted, [given[name] for name in leaves], [torch.ones_like(output) for output in wanted], allow_unused=True
        )
    written = _bytes([grad for grad in grads if grad is not None])
    moved = written + _bytes(_read_by_backward(subject, values, outputs, wanted))
    work = Work(moved, backward.get_total_flops())
    if phase == "backward":
        return work
    return Work(work.moved + forward_work.moved, work.flops + forward_work.flops)


def _visible(subject: Subject, outputs: list[Tensor]) -> list[Tensor]:
    if subject.signature is None or len(outputs) != len(subject.signature.outputs):
        return outputs
    return [tensor for tensor, output in zip(outputs, subject.signature.outputs, strict=True) if not output.saved]


def _read_by_backward(
    subject: Subject, values: Mapping[str, Any], outputs: list[Tensor], wanted: list[Tensor]
) -> list[Tensor]:
    """Return what a backward reads: what its definition names, or the gradients and all inputs."""
    definition = subject.operator.definition if subject.operator is not None else None
    if definition is None or definition.wiring is None:
        return [*wanted, *tensors_in(values)]
    found = []
    for argument in definition.wiring.arguments:
        found += _source(argument, subject, values, outputs)
    return found


def _source(argument: Argument, subject: Subject, values: Mapping[str, Any], outputs: list[Tensor]) -> list[Tensor]:
    if argument.source == "input":
        name = subject.parameters[argument.index]
        return tensors_in({name: values.get(name)})
    return [outputs[argument.index]] if argument.source in ("gradient", "output") else []


def _bytes(tensors: list[Tensor]) -> int:
    """Return the bytes of memory that tensors cover: what is expanded is there once."""
    return sum(
        tensor.element_size() * (tensor.numel() if 0 not in tensor.stride() else _distinct(tensor))
        for tensor in tensors
    )


def _distinct(tensor: Tensor) -> int:
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else min(size, 1)
    return count
