"""Prepares the calls of a competitor for a phase: functions without arguments, one for each set of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from opsmith.benchmark.clock import Call, Turns
from opsmith.benchmark.competitors import Competitor, Phase, differentiable
from opsmith.subject.subject import Subject

__all__ = ["Contender", "Values", "gradients", "has_gradient", "prepare"]

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Contender:
    """A competitor that is ready: its calls, and `results`, which makes the first of them and returns what it gave."""

    competitor: Competitor
    turns: Turns
    results: Callable[[], list[Tensor]]


def has_gradient(subject: Subject, values: Values) -> bool:
    """Return whether the reference has a gradient."""
    names = differentiable(subject, values)
    if not names:
        return False
    given, _ = _with_leaves(names, values)
    with torch.enable_grad():
        return bool(_with_gradient(_call(subject, subject.reference, given)))


def prepare(
    subject: Subject, competitor: Competitor, function: Callable[..., Any], phase: Phase, inputs: Sequence[Values]
) -> Contender:
    """Return a competitor's calls at a phase, of `function`, which is the competitor's own or what was compiled of it.

    Raises what the competitor raises.
    """
    if competitor.kind == "graph":
        return _captured(subject, competitor, function, phase, inputs[0])
    if phase != "forward":
        made = [_differentiated(subject, function, values, phase) for values in inputs]
        return Contender(competitor, Turns([call for call, _ in made]), made[0][1])
    return _forward(subject, competitor, function, inputs)


def gradients(subject: Subject, function: Callable[..., Any], values: Values) -> list[Tensor]:
    """Return the gradients of a function's results for all differentiable arguments, as `both` computes them."""
    with torch.enable_grad():
        _, results = _differentiated(subject, function, values, "both")
        return results()


def _forward(
    subject: Subject, competitor: Competitor, function: Callable[..., Any], inputs: Sequence[Values]
) -> Contender:
    reset = None
    if subject.mutated:
        # Each competitor writes to its own copies, which are then restored.
        pristine, inputs = inputs, [_own(subject, values) for values in inputs]
        reset = _reset(subject, inputs, pristine)
    first = inputs[0]

    def results() -> list[Tensor]:
        if reset is not None:
            reset()
        given = _tensors(_call(subject, function, first))
        return [*given, *(first[name] for name in _written(subject, first))]

    return Contender(competitor, Turns([_bound(subject, function, values) for values in inputs], reset), results)


def _differentiated(
    subject: Subject, function: Callable[..., Any], values: Values, phase: Phase
) -> tuple[Call, Callable[[], list[Tensor]]]:
    """Return a call that computes gradients, and what returns them with zeros for those that autograd knows to be zero."""
    given, leaves = _with_leaves(differentiable(subject, values), values)
    outputs = _with_gradient(_call(subject, function, given))
    if not outputs:
        raise RuntimeError("its results have no gradient")
    grads = [_grad_for(output) for output in outputs]
    run = _bound(subject, function, given)

    def backward() -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(outputs, leaves, grads, retain_graph=True, allow_unused=True)

    def both() -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(_with_gradient(run()), leaves, grads, allow_unused=True)

    call = backward if phase == "backward" else both

    def results() -> list[Tensor]:
        with torch.enable_grad():
            found = call()
        return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves, strict=True)]

    if phase == "both":
        # The graph of the first call is brought to its end, which CUDA graphs of compiled functions wait for, and let go.
        torch.autograd.grad(outputs, leaves, grads, allow_unused=True)
        outputs = []
    return call, results


def _captured(
    subject: Subject, competitor: Competitor, function: Callable[..., Any], phase: Phase, values: Values
) -> Contender:
    """Return the replay of a CUDA graph of one call, with its gradients where the phase is `both`."""
    own = _own(subject, values) if subject.mutated else values
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call: Call
        if phase == "both":
            _, call = _differentiated(subject, function, own, phase)
        else:
            call = _bound(subject, function, own)
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    reset = _reset(subject, [own], [values]) if subject.mutated else None
    # On the same stream: autograd's nodes of leaves belong to the one on which they were made.
    with torch.cuda.graph(graph, stream=side):
        kept = call()

    replay = partial(_replay, graph, call)

    def results() -> list[Tensor]:
        if reset is not None:
            reset()
        replay()
        # The graph writes to the same memory each time.
        return [tensor.clone() for tensor in [*_tensors(kept), *(own[name] for name in _written(subject, own))]]

    return Contender(competitor, Turns([replay], reset), results)


def _replay(graph: torch.cuda.CUDAGraph, captured: Call) -> None:
    """Replay a graph. It knows addresses alone of what was there before its capture, which the captured call holds."""
    graph.replay()


def _bound(subject: Subject, function: Callable[..., Any], values: Values) -> Call:
    """Return a call with everything looked up before: what is timed is the function."""
    arguments, named = subject.arguments(values), subject.keyword_arguments(values)
    if named:
        return lambda: function(*arguments, **named)
    return lambda: function(*arguments)


def _call(subject: Subject, function: Callable[..., Any], values: Values) -> Any:
    return _bound(subject, function, values)()


def _with_leaves(names: list[str], values: Values) -> tuple[dict[str, Any], list[Tensor]]:
    leaves = [values[name].detach().requires_grad_() for name in names]
    return {**values, **dict(zip(names, leaves, strict=True))}, leaves


def _with_gradient(results: Any) -> list[Tensor]:
    return [item for item in _tensors(results) if item.requires_grad]


def _tensors(results: Any) -> list[Tensor]:
    listed = results if isinstance(results, tuple | list) else [results]
    return [item for item in listed if isinstance(item, Tensor)]


def _grad_for(output: Tensor) -> Tensor:
    """Return a gradient of an output: not the same everywhere, and the same numbers in every element type."""
    pattern = torch.arange(output.numel(), device=output.device).remainder_(13).sub_(6).div(8)
    return pattern.to(output.dtype).reshape(output.shape)


def _own(subject: Subject, values: Values) -> dict[str, Any]:
    written = _written(subject, values)
    return {name: value.clone() if name in written else value for name, value in values.items()}


def _written(subject: Subject, values: Values) -> list[str]:
    return [name for name in subject.mutated if isinstance(values.get(name), Tensor)]


def _reset(subject: Subject, used: Sequence[Values], pristine: Sequence[Values]) -> Call:
    pairs = [(to[name], of[name]) for to, of in zip(used, pristine, strict=True) for name in _written(subject, of)]

    def reset() -> None:
        with torch.no_grad():
            for to, of in pairs:
                to.copy_(of)

    return reset
