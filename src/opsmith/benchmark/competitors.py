"""Lists what is timed: the operator, its reference eager and compiled, CUDA graphs of both, and the user's competitors.

A competitor is a function of the operator's arguments. It is timed in one of three phases: `forward` without gradients,
`backward` alone through a graph made before, and `both` together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.subject.subject import Subject

__all__ = ["MODES", "PHASES", "Competitor", "Phase", "competitors", "differentiable", "visible_outputs"]

Phase = Literal["forward", "backward", "both"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "both")

# Modes of torch.compile, by what a report calls them.
MODES = {"compiled": "default", "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune"}
# Without CUDA graphs, which the others are made of, `reduce-overhead` is `default`; max-autotune takes most of a minute
# on the CPU and is taken only by name.
_MODES = {"cpu": ("compiled", "max-autotune"), "cuda": tuple(MODES)}
_BY_DEFAULT = {"cpu": ("compiled",), "cuda": (*MODES, "graph", "eager graph")}


@dataclass(frozen=True)
class Competitor:
    """A function that does what the operator does.

    `kind` is `compiled` for what torch.compile makes of `function` (`mode`), which takes seconds; a `graph` is a CUDA
    graph of it. `phases` are those that it can be timed at.
    """

    name: str
    function: Callable[..., Any]
    kind: Literal["plain", "compiled", "graph"] = "plain"
    phases: tuple[Phase, ...] = PHASES
    mode: str = "default"


def competitors(
    subject: Subject, device: str, names: Sequence[str] = (), extra: Sequence[Competitor] = ()
) -> tuple[Competitor, ...]:
    """Return the operator first, then eager, then those of `names`, by default what is usual on the device, and `extra`.

    Raises ArgumentError for an unknown name.
    """
    operator = Competitor("opsmith" if subject.operator is not None else "operator", subject.call)
    reference = visible_outputs(subject)
    there: dict[str, Competitor] = {"eager": Competitor("eager", reference)}
    # A CUDA graph's saved tensors are overwritten by the next call, so there is no backward that can be repeated alone.
    for name in _MODES[device]:
        phases: tuple[Phase, ...] = PHASES if name == "compiled" or device == "cpu" else ("forward", "both")
        there[name] = Competitor(name, reference, "compiled", phases, MODES[name])
    if device == "cuda":
        there["graph"] = Competitor("graph", subject.call, "graph", ("forward", "both"))
        there["eager graph"] = Competitor("eager graph", reference, "graph", ("forward", "both"))
    rivals = subject.operator.definition.rules.versus or {} if subject.operator is not None else {}
    there |= {name: Competitor(name, function) for name, function in rivals.items()}
    for name in names:
        if name not in there and name != operator.name:
            raise ArgumentError(
                f"{subject.name} has no competitor {name!r} on {device}; there are {', '.join(there)}. "
                "@op.versus(name) declares another"
            )
    wanted = names or (*_BY_DEFAULT[device], *rivals)
    chosen = [there[name] for name in there if name == "eager" or name in wanted]
    return (operator, *chosen, *extra)


def differentiable(subject: Subject, values: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that gradients are computed for."""
    if subject.mutated:
        return []
    return [
        name
        for name in subject.differentiable
        if isinstance(values.get(name), Tensor) and values[name].is_floating_point()
    ]


def visible_outputs(subject: Subject) -> Callable[..., Any]:
    """Return the reference without the outputs that a caller never gets, as the operator is called."""
    outputs = subject.signature.outputs if subject.signature is not None else ()
    seen = [index for index, output in enumerate(outputs) if not output.saved]
    if len(seen) == len(outputs):
        return subject.reference
    reference = subject.reference

    def visible(*arguments: Any, **named: Any) -> Any:
        results = reference(*arguments, **named)
        chosen = tuple(results[index] for index in seen)
        return chosen[0] if len(chosen) == 1 else chosen

    return visible
