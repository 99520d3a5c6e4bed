"""How an operator is differentiated, worked out once from its definition: what both gradient paths go by."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opsmith.spec.definition import Definition
from opsmith.spec.gradient import Wiring
from opsmith.spec.signature import Kind, Signature

__all__ = ["GradientPlan", "plan_gradient"]


@dataclass(frozen=True)
class GradientPlan:
    """Everything that a call with gradients does, by positions alone.

    `arguments` says for each argument of the backward where it comes from: (source, index, whether a gradient may be None
    where it is zero). `results` holds for each result of the backward the argument that it is the gradient of. Both are
    empty, and so is `backward_name`, where the body is differentiated instead. `passed` holds pairs of an argument and the
    output whose gradient is its own.

    `body_serves_second` is for a backward that reads a saved output: a second gradient would have to flow back through
    that output, but the graph ends at it; the body knows the way. `refusal` and `refusal_of_second` are the words of a
    GradientError where there is no gradient, or no second one. bridge/gradient.h is this in C++.
    """

    operator_name: str
    node_name: str
    differentiable_inputs: tuple[bool, ...]
    differentiable_outputs: tuple[bool, ...]
    backward_name: str = ""
    arguments: tuple[tuple[str, int, bool], ...] = ()
    results: tuple[int, ...] = ()
    passed: tuple[tuple[int, int], ...] = ()
    body_serves_second: bool = False
    saved_inputs: tuple[int, ...] = ()
    saved_outputs: tuple[int, ...] = ()
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
    opaque = _saved_outputs_read(signature, wiring)
    saved = {argument.index for argument in wiring.arguments if argument.source == "input"}
    if opaque:
        # The body takes all arguments, and numbers cost nothing to keep.
        saved |= {index for index in everything if signature.parameters[index].tensor is None}
    kinds = [parameter.kind for parameter in definition.backward.signature.parameters]
    return replace(
        base,
        backward_name=definition.backward.qualified_name,
        arguments=tuple(
            (argument.source, argument.index, kind is Kind.OPTIONAL_TENSOR)
            for argument, kind in zip(wiring.arguments, kinds, strict=True)
        ),
        results=wiring.inputs,
        body_serves_second=bool(opaque),
        saved_inputs=tuple(sorted(saved)),
        saved_outputs=tuple(sorted({item.index for item in wiring.arguments if item.source == "output"})),
        refusal_of_second=_refuse_second(definition, opaque, saved) if opaque else "",
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


def _saved_outputs_read(signature: Signature, wiring: Wiring) -> tuple[str, ...]:
    """Return the saved outputs that the backward reads and that carry values of the inputs."""
    used = {argument.index for argument in wiring.arguments if argument.source == "output"}
    outputs = [signature.outputs[index] for index in sorted(used)]
    return tuple(output.name for output in outputs if output.saved and output.is_floating)


def _refuse_second(definition: Definition, opaque: tuple[str, ...], saved: set[int]) -> str:
    """Return why a second gradient cannot go through the body; empty where it can."""
    absent = [item.name for index, item in enumerate(definition.signature.parameters) if index not in saved]
    if not absent:
        return ""
    return (
        f"{definition.name}() cannot be differentiated twice: its backward reads the saved output {opaque[0]}, so the "
        f"second gradient goes through the body, and that needs {', '.join(absent)}, which the backward does not take. "
        f"Add {'it' if len(absent) == 1 else 'them'} to the parameters of the backward"
    )
