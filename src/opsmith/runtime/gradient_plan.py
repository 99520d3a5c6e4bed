"""Plans an operator's gradient once, from its definition; the C++ and the Python path both follow the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from opsmith.spec.definition import Definition
from opsmith.spec.signature import Kind, Signature

__all__ = ["GradientPlan", "plan_gradient"]


@dataclass(frozen=True)
class GradientPlan:
    """Everything that a call with gradients does, by positions alone.

    `arguments` says for each argument of the backward where it comes from: (source, index, whether a gradient may be
    None if it is zero). `results` holds for each result of the backward the argument that it is the gradient of.
    Both are empty, and so is `backward_name`, where the body is differentiated instead. `passed` holds pairs of an
    argument and the output whose gradient is its own.

    `body_outputs` are the saved outputs that the backward reads and that carry values of the inputs. To autograd they
    are outputs like others: a second gradient flows back through them, and then it is the body's. `asked` are the
    arguments that say whether a saved output is needed: they are True where a gradient is recorded. `refusal` and
    `refusal_of_second` are the words of a GradientError if there is no gradient, or no second one. bridge/gradient.h
    is this in C++.
    """

    operator_name: str
    node_name: str
    differentiable_inputs: tuple[bool, ...]
    differentiable_outputs: tuple[bool, ...]
    backward_name: str = ""
    arguments: tuple[tuple[str, int, bool], ...] = ()
    results: tuple[int, ...] = ()
    passed: tuple[tuple[int, int], ...] = ()
    body_outputs: tuple[int, ...] = ()
    saved_inputs: tuple[int, ...] = ()
    saved_outputs: tuple[int, ...] = ()
    asked: tuple[int, ...] = ()
    refusal: str = ""
    refusal_of_second: str = ""
    mutated: tuple[int, ...] = ()


def plan_gradient(definition: Definition) -> GradientPlan:
    """Return the plan of an operator's gradient."""
    signature = definition.signature
    everything = tuple(range(len(signature.parameters)))
    words = definition.name.split("_")
    base = GradientPlan(
        definition.qualified_name,
        f"{''.join(word[:1].upper() + word[1:] for word in words)}Backward",
        tuple(parameter.differentiable for parameter in signature.parameters),
        tuple(output.differentiable for output in signature.outputs),
        passed=_passed(signature),
        saved_inputs=everything,
    )
    if signature.mutated:
        return _refused(definition, base)
    if definition.backward is None or definition.wiring is None:
        computed = [p for p in signature.parameters if p.differentiable and p.passes_gradient is None]
        return base if computed else replace(base, saved_inputs=())
    wiring = definition.wiring
    kept = sorted({argument.index for argument in wiring.arguments if argument.source == "output"})
    hidden = _hidden_outputs(signature, kept)
    saved = {argument.index for argument in wiring.arguments if argument.source == "input"}
    if hidden:
        # The body takes all arguments, and numbers cost nothing to keep.
        saved |= {index for index in everything if signature.parameters[index].tensor is None}
    kinds = [parameter.kind for parameter in definition.backward.signature.parameters]
    return replace(
        base,
        differentiable_outputs=tuple(
            output.differentiable or index in hidden for index, output in enumerate(signature.outputs)
        ),
        backward_name=definition.backward.qualified_name,
        arguments=tuple(
            (argument.source, argument.index, kind is Kind.OPTIONAL_TENSOR)
            for argument, kind in zip(wiring.arguments, kinds, strict=True)
        ),
        results=wiring.inputs,
        body_outputs=hidden,
        saved_inputs=tuple(sorted(saved)),
        saved_outputs=tuple(kept),
        asked=_asked(signature, kept),
        refusal_of_second=_refuse_second(definition, hidden, saved) if hidden else "",
    )


def _passed(signature: Signature) -> tuple[tuple[int, int], ...]:
    names = [output.name for output in signature.outputs]
    return tuple(
        (index, names.index(parameter.passes_gradient))
        for index, parameter in enumerate(signature.parameters)
        if parameter.passes_gradient is not None
    )


def _refused(definition: Definition, base: GradientPlan) -> GradientPlan:
    """Return the plan of an operator that writes to its arguments: it has no gradient."""
    signature = definition.signature
    return replace(
        base,
        saved_inputs=(),
        # Whatever requires a gradient is refused, also where a gradient would not flow.
        differentiable_inputs=tuple(parameter.kind.is_tensor for parameter in signature.parameters),
        refusal=(
            f"{definition.name}() writes to {signature.mutated[0].name} and has no gradient. Call it under "
            "torch.no_grad(), or detach its arguments"
        ),
        mutated=tuple(signature.parameters.index(parameter) for parameter in signature.mutated),
    )


def _asked(signature: Signature, kept: Sequence[int]) -> tuple[int, ...]:
    """Return the arguments that say whether outputs are needed that a node keeps."""
    flags = {signature.outputs[index].needed_by for index in kept}
    return tuple(index for index, parameter in enumerate(signature.parameters) if parameter.name in flags)


def _hidden_outputs(signature: Signature, kept: Sequence[int]) -> tuple[int, ...]:
    """Return the saved outputs that a node keeps and that carry values of the inputs."""
    return tuple(index for index in kept if signature.outputs[index].saved and signature.outputs[index].is_floating)


def _refuse_second(definition: Definition, hidden: tuple[int, ...], saved: set[int]) -> str:
    """Return why a second gradient cannot go through the body; empty if it can."""
    absent = [item.name for index, item in enumerate(definition.signature.parameters) if index not in saved]
    if not absent:
        return ""
    name = definition.signature.outputs[hidden[0]].name
    return (
        f"{definition.name}() cannot be differentiated twice: its backward reads the saved output {name}, so the "
        f"second gradient goes through the body, and that needs {', '.join(absent)}, which the backward does not take. "
        f"Add {'it' if len(absent) == 1 else 'them'} to the parameters of the backward"
    )
