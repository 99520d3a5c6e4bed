"""What is timed against what: the operator, its reference eager and compiled, a CUDA graph of it, and what the user names.

A competitor is a function of the operator's arguments. What it is timed at is one of three phases: `forward` without
gradients, `backward` alone through a graph that was made before, and `both` together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from opsmith.bench.clock import Call
from opsmith.bench.workload import tensors_in
from opsmith.check.subject import Subject

__all__ = ["PHASES", "Competitor", "Phase", "competitors", "differentiable", "prepare"]

Phase = Literal["forward", "backward", "both"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "both")

# Modes of torch.compile, by what a report calls them. On the CPU there are no CUDA graphs to reduce the overhead with.
_COMPILED = {"compiled": "default", "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune"}


@dataclass(frozen=True)
class Competitor:
    """A function that does what the operator does. `make` returns it, which may compile or capture something.

    `phases` are those that it can be timed at, and `is_costly` tells that making it takes seconds.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    phases: tuple[Phase, ...] = PHASES
    is_costly: bool = False


def competitors(subject: Subject, device: str, names: Sequence[str] = ()) -> Iterator[Competitor]:
    """Yield the competitors: the operator first, then eager, then those of `names`, by default what is usual there."""
    yield Competitor("opsmith" if subject.operator is not None else "operator", lambda: subject.call)
    yield Competitor("eager", lambda: subject.reference)
    modes = ["compiled"] if device == "cpu" else list(_COMPILED)
    for name in modes:
        if not names or name in names:
            yield Competitor(name, _compiled(subject.reference, _COMPILED[name]), is_costly=True)
    if device == "cuda" and (not names or "graph" in names):
        yield Competitor("graph", lambda: subject.call, ("forward",))
    if subject.operator is not None:
        for name, function in (subject.operator.definition.rules.versus or {}).items():
            if not names or name in names:
                yield Competitor(name, _constant(function))


def differentiable(subject: Subject, values: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that gradients are computed for."""
    return [
        name
        for name in subject.differentiable
        if isinstance(values.get(name), Tensor) and values[name].is_floating_point()
    ]


def prepare(subject: Subject, competitor: Competitor, phase: Phase, inputs: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Return the calls of a competitor at a phase, one for each set of inputs. Raises what the competitor raises."""
    function = competitor.make()
    if phase == "forward":
        if competitor.name == "graph":
            return [_captured(subject, function, inputs[0])]
        return [_forward(function, subject.arguments(values)) for values in inputs]
    calls = []
    for values in inputs:
        leaves = [values[name].detach().requires_grad_() for name in differentiable(subject, values)]
        given = {**values, **dict(zip(differentiable(subject, values), leaves, strict=True))}
        calls.append(_with_gradient(function, subject.arguments(given), leaves, phase))
    return calls


def _forward(function: Callable[..., Any], arguments: list[Any]) -> Call:
    return lambda: function(*arguments)


def _with_gradient(function: Callable[..., Any], arguments: list[Any], leaves: list[Tensor], phase: Phase) -> Call:
    outputs = _differentiable_outputs(function(*arguments))
    grads = [torch.ones_like(output) for output in outputs]
    if phase == "backward":
        return lambda: torch.autograd.grad(outputs, leaves, grads, retain_graph=True, allow_unused=True)

    def both() -> object:
        return torch.autograd.grad(_differentiable_outputs(function(*arguments)), leaves, grads, allow_unused=True)

    return both


def _differentiable_outputs(results: Any) -> list[Tensor]:
    listed = results if isinstance(results, tuple | list) else [results]
    return [item for item in listed if isinstance(item, Tensor) and item.requires_grad]


def _compiled(reference: Callable[..., Any], mode: str) -> Callable[[], Callable[..., Any]]:
    def make() -> Callable[..., Any]:
        # What an earlier size has compiled shall not make this one dynamic.
        torch._dynamo.reset()
        return torch.compile(reference, mode=mode, dynamic=False)

    return make


def _constant(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: function


def _captured(subject: Subject, function: Callable[..., Any], values: Mapping[str, Any]) -> Call:
    """Return the replay of a CUDA graph of one call."""
    arguments = subject.arguments(values)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function(*arguments)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = function(*arguments)
    # The results live as long as the graph, which writes to them.
    graph.kept = (kept, tensors_in(values))  # type: ignore[attr-defined]
    return graph.replay
