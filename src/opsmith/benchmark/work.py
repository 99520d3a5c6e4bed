"""Computes the least work of a call: bytes from the definition, and operations as PyTorch counts them or as declared.

Every input is read once and every output written once: no kernel moves less, and one that keeps intermediate results on
the chip moves no more. A gradient that is passed on unchanged moves nothing. Operations are what `@op.flops` returns, else
what torch.utils.flop_counter counts in the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from opsmith.benchmark.competitors import Phase, differentiable
from opsmith.benchmark.workload import tensors_in
from opsmith.spec.definition import Definition
from opsmith.spec.gradient import Argument
from opsmith.subject.subject import Subject

__all__ = ["Work", "work_of"]

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """The least that a call reads and writes, in bytes, and the operations it takes."""

    read: int
    written: int
    flops: int

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    def __add__(self, other: Work) -> Work:
        return Work(self.read + other.read, self.written + other.written, self.flops + other.flops)


def work_of(subject: Subject, phase: Phase, values: Values) -> Work:
    """Return the work of a call with these arguments, which are not changed. Raises what the reference raises."""
    names = differentiable(subject, values) if phase != "forward" else []
    given = {name: _copied(value) if name in subject.mutated else value for name, value in values.items()}
    given |= {name: values[name].detach().requires_grad_() for name in names}
    read_bytes = _bytes(tensors_in(values))
    with torch.set_grad_enabled(phase != "forward"), FlopCounterMode(display=False) as counter:
        results = subject.reference(*subject.arguments(given), **subject.keyword_arguments(given))
    listed = results if isinstance(results, tuple | list) else [results]
    outputs = [item for item in listed if isinstance(item, Tensor)]
    visible = _visible(subject, outputs)
    changed = [given[name] for name in subject.mutated if isinstance(given.get(name), Tensor)]
    forward = Work(read_bytes, _bytes([*visible, *changed]), _forward_flops(subject, values, counter))
    if phase == "forward":
        return forward
    wanted = [output for output in visible if output.requires_grad]
    leaves = [given[name] for name in names]
    with FlopCounterMode(display=False) as counter:
        grads = torch.autograd.grad(wanted, leaves, [torch.ones_like(one) for one in wanted], allow_unused=True)
    computed = [
        grad for name, grad in zip(names, grads, strict=True) if grad is not None and not _passes(subject, name)
    ]
    needed = _read_by_backward(subject, values, outputs, wanted) if computed else []
    backward = Work(_bytes(needed), _bytes(computed), _backward_flops(subject, values, outputs, counter))
    return backward if phase == "backward" else forward + backward


def _definition(subject: Subject) -> Definition | None:
    return subject.operator.definition if subject.operator is not None else None


def _forward_flops(subject: Subject, values: Values, counter: FlopCounterMode) -> int:
    definition = _definition(subject)
    if definition is None or definition.rules.flops is None:
        return int(counter.get_total_flops())
    return int(definition.rules.flops(*subject.arguments(values), **subject.keyword_arguments(values)))


def _backward_flops(subject: Subject, values: Values, outputs: list[Tensor], counter: FlopCounterMode) -> int:
    """Return the operations of a backward: what is declared for it, with the arguments that it gets, or what is counted."""
    definition = _definition(subject)
    gradient = subject.operator.gradient if subject.operator is not None else None
    declared = gradient.definition.rules.flops if gradient is not None else None
    if definition is None or definition.wiring is None or declared is None:
        return int(counter.get_total_flops())
    arguments = [_wired(argument, subject, values, outputs) for argument in definition.wiring.arguments]
    return int(declared(*arguments))


def _wired(argument: Argument, subject: Subject, values: Values, outputs: list[Tensor]) -> Any:
    """Return what a backward gets for an argument; a gradient looks like the output that it belongs to."""
    if argument.source == "input":
        return values.get(subject.parameters[argument.index])
    return True if argument.source == "needs" else outputs[argument.index].detach()


def _visible(subject: Subject, outputs: list[Tensor]) -> list[Tensor]:
    if subject.signature is None or len(outputs) != len(subject.signature.outputs):
        return outputs
    return [tensor for tensor, output in zip(outputs, subject.signature.outputs, strict=True) if not output.saved]


def _read_by_backward(subject: Subject, values: Values, outputs: list[Tensor], wanted: list[Tensor]) -> list[Tensor]:
    """Return what a backward reads: what its definition names, or the gradients and all inputs."""
    definition = _definition(subject)
    if definition is None or definition.wiring is None:
        return [*wanted, *tensors_in(values)]
    found = {str(index): _wired(one, subject, values, outputs) for index, one in enumerate(definition.wiring.arguments)}
    return tensors_in(found)


def _passes(subject: Subject, name: str) -> bool:
    """Whether an argument's gradient is an output's, unchanged: nothing is read or written for it."""
    parameter = subject.signature.parameter(name) if subject.signature is not None else None
    return parameter is not None and parameter.passes_gradient is not None


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


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
