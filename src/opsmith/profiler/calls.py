"""Makes the calls that are profiled: with and without gradients, and those of the backward that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.benchmark.competitors import differentiable
from opsmith.profiler.loops import Call
from opsmith.runtime.operator import Operator
from opsmith.subject.dispatch import DispatchMode
from opsmith.subject.subject import Subject

__all__ = ["PHASES", "backward_calls", "forward_call", "gradients", "recording_call"]

# What a call is profiled as: without gradients, recording one, and what autograd does with it later.
PHASES = ("forward", "recording", "backward")


def forward_call(subject: Subject, values: Mapping[str, Any]) -> Call:
    """Return a call with these arguments."""
    return tuple(subject.arguments(values)), subject.keyword_arguments(values)


def recording_call(subject: Subject, values: Mapping[str, Any]) -> Call:
    """Return a call whose differentiable arguments need a gradient."""
    leaves = {name: values[name].detach().requires_grad_() for name in differentiable(subject, values)}
    return forward_call(subject, {**values, **leaves})


def backward_calls(call: Call, function: Callable[..., Any], gradient: Operator | None) -> tuple[Call, Call | None]:
    """Return a call of `gradients` for a recording call of a function, and that of the backward's operator below it.

    The second is None if no operator is named or none is called: the gradient is then that of the body.
    """
    args, kwargs = call
    results = function(*args, **kwargs)
    outputs = [item for item in (results if isinstance(results, tuple | list) else [results]) if _has_gradient(item)]
    leaves = [item for item in args if _has_gradient(item)]
    leaves += [inner for item in args if isinstance(item, list) for inner in item if _has_gradient(inner)]
    given: Call = ((outputs, leaves, [torch.randn_like(output) for output in outputs]), {})
    if gradient is None:
        return given, None
    with _Catch(gradient) as caught:
        gradients(*given[0])
    return given, caught.call


def gradients(outputs: Sequence[Tensor], leaves: Sequence[Tensor], grads: Sequence[Tensor]) -> Any:
    """Return the gradients of outputs, and keep the graph for the next time."""
    return torch.autograd.grad(outputs, leaves, grads, retain_graph=True, allow_unused=True)


class _Catch(DispatchMode):
    """Keeps the arguments of the last call of an operator."""

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self._overload = operator.torch_op
        self.call: Call | None = None

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is self._overload:
            self.call = (
                tuple(item.detach() if isinstance(item, Tensor) else item for item in args),
                dict(kwargs or {}),
            )
        return func(*args, **(kwargs or {}))


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
