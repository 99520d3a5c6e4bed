"""Wires a backward definition to its forward by the names of its parameters and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from opsmith.errors import DefinitionError
from opsmith.spec.gradient_types import check_gradient_types
from opsmith.spec.signature import Kind, Parameter, Signature, TensorType

__all__ = [
    "Argument",
    "Wiring",
    "check_number_of_gradients",
    "check_passed_gradients",
    "default_gradient_names",
    "renamed",
    "wire_backward",
]

_NEEDS = "needs_grad_"


@dataclass(frozen=True)
class Argument:
    """Where one argument of the backward comes from: a gradient, an input or an output of the forward, by position.

    The fourth source is `needs`: a bool that tells whether the gradient of the input at that position is wanted.
    """

    source: Literal["gradient", "input", "output", "needs"]
    index: int


@dataclass(frozen=True)
class Wiring:
    """The backward's arguments in order, and for each of its outputs the forward's input that it is the gradient of."""

    arguments: tuple[Argument, ...]
    inputs: tuple[int, ...]


def default_gradient_names(forward: Signature) -> tuple[str, ...]:
    """Return `grad_<input>` for each input whose gradient a backward computes, in order: its outputs where it names none."""
    return tuple(f"grad_{parameter.name}" for parameter in forward.parameters if _is_computed(parameter))


def check_number_of_gradients(forward: Signature, backward: str, found: int) -> None:
    """Reject a backward without outputs= that returns more or fewer gradients than expected; raises DefinitionError."""
    inputs = [parameter.name for parameter in forward.parameters if _is_computed(parameter)]
    if found == len(inputs):
        return
    returns = f"{backward}: it returns {found} gradient{'' if found == 1 else 's'}"
    if not inputs:
        raise DefinitionError(f"{returns}, but {forward.name} has no input whose gradient a backward computes")
    expected = ", ".join(f"grad_{name}" for name in inputs)
    if found > len(inputs):
        raise DefinitionError(f"{returns}, but those of {forward.name} are {len(inputs)}: {expected}")
    raise DefinitionError(
        f"{returns}, but {forward.name} has {len(inputs)} differentiable input{'' if len(inputs) == 1 else 's'} "
        f"({', '.join(inputs)}), and what is missing would silently be zero. Return {expected} in this order, or name the "
        f"inputs without a gradient in nondifferentiable=, such as nondifferentiable=({inputs[-1]!r},) with {forward.name}"
    )


def check_passed_gradients(signature: Signature) -> None:
    """Reject an input that cannot have an output's gradient as its own; raises DefinitionError."""
    for parameter in signature.tensors:
        if parameter.passes_gradient is None:
            continue
        where = f"{signature.name}: passes_gradient= gives {parameter.name} the gradient of {parameter.passes_gradient}"
        output = signature.output(parameter.passes_gradient)
        if output is None or not output.differentiable:
            names = ", ".join(output.name for output in signature.outputs if output.differentiable)
            raise DefinitionError(f"{where}, but the outputs with a gradient are {names or 'none'}")
        if parameter.kind is Kind.TENSOR_LIST or not parameter.differentiable:
            raise DefinitionError(f"{where}, but {parameter.name} is not a tensor that has a gradient")
        type_, found = output.tensor, parameter.tensor_type
        if (type_.element, type_.shape.text) != (found.element, found.shape.text):
            raise DefinitionError(f"{where}, but one is {found.text} and the other {type_.text}")


def _is_computed(parameter: Parameter) -> bool:
    return parameter.differentiable and parameter.passes_gradient is None


def renamed(signature: Signature, names: Mapping[str, str]) -> Signature:
    """Return a signature with other names for some parameters and outputs: those that they have as part of a gradient.

    Raises DefinitionError for a name that the signature does not have.
    """
    known = [item.name for item in signature.parameters] + [item.name for item in signature.outputs]
    if unknown := sorted(names.keys() - set(known)):
        raise DefinitionError(f"{signature.name} has no {unknown[0]}; there are {', '.join(known)}")
    return replace(
        signature,
        parameters=tuple(replace(item, name=names.get(item.name, item.name)) for item in signature.parameters),
        outputs=tuple(replace(item, name=names.get(item.name, item.name)) for item in signature.outputs),
    )


def wire_backward(forward: Signature, backward: Signature) -> Wiring:
    """Match a backward to its forward; raises a DefinitionError that lists the known names."""
    if forward.mutated:
        raise DefinitionError(
            f"{backward.name}: {forward.name} writes to {forward.mutated[0].name}, and an operator that writes to its "
            "arguments cannot have a gradient. Return the new value instead"
        )
    wiring = Wiring(
        tuple(_wire_argument(forward, backward, index) for index in range(len(backward.parameters))),
        tuple(_wire_output(forward, backward, index) for index in range(len(backward.outputs))),
    )
    for index, parameter in enumerate(forward.parameters):
        if _is_computed(parameter) and index not in wiring.inputs:
            raise DefinitionError(
                f"{backward.name}: it returns no gradient of {parameter.name}, which would then silently be zero. Return "
                f"grad_{parameter.name} too, or declare nondifferentiable=({parameter.name!r},) with {forward.name}"
            )
    check_gradient_types(
        forward,
        backward,
        _tensors_of_both(forward, backward, wiring),
        [(output, forward.parameters[index]) for output, index in zip(backward.outputs, wiring.inputs, strict=True)],
    )
    return wiring


def _tensors_of_both(
    forward: Signature, backward: Signature, wiring: Wiring
) -> Iterator[tuple[TensorType, TensorType]]:
    """Yield the tensors that a backward takes, each as annotated there and in the forward.

    Lists are left out: what names a size of their tensors may be another one in each.
    """
    for argument, parameter in zip(wiring.arguments, backward.parameters, strict=True):
        if parameter.tensor is not None and parameter.kind is not Kind.TENSOR_LIST:
            if argument.source == "input":
                yield parameter.tensor, forward.parameters[argument.index].tensor_type
            else:
                yield parameter.tensor, forward.outputs[argument.index].tensor


def _wire_argument(forward: Signature, backward: Signature, index: int) -> Argument:
    parameter = backward.parameters[index]
    where = f"{backward.name}: the parameter {parameter.name}"
    for position, output in enumerate(forward.outputs):
        if parameter.name == f"grad_{output.name}":
            if not output.differentiable:
                raise DefinitionError(f"{where} is the gradient of {output.name}, which is declared without one")
            # An optional one is None if autograd has no gradient; the others then get zeros.
            kind = Kind.TENSOR if parameter.kind is Kind.OPTIONAL_TENSOR else parameter.kind
            _check_tensor(where, kind, parameter.tensor, output.tensor)
            return Argument("gradient", position)
        if parameter.name == output.name:
            _check_tensor(where, parameter.kind, parameter.tensor, output.tensor)
            return Argument("output", position)
    for position, source in enumerate(forward.parameters):
        if parameter.name == source.name:
            if parameter.kind is not source.kind:
                raise DefinitionError(
                    f"{where} is {parameter.kind.value}, but {forward.name}'s input of that name is {source.kind.value}"
                )
            if source.tensor is not None:
                _check_type(where, parameter.tensor_type, source.tensor)
            return Argument("input", position)
    if parameter.name.startswith(_NEEDS):
        return _wire_need(forward, backward, parameter)
    raise DefinitionError(
        f"{where} is neither a gradient nor an input nor an output of {forward.name}. There are "
        + ", ".join(
            [f"grad_{output.name}" for output in forward.outputs if output.differentiable]
            + [source.name for source in forward.parameters]
            + [output.name for output in forward.outputs]
            + [f"{_NEEDS}{source.name}" for source in forward.parameters if source.differentiable]
        )
    )


def _wire_need(forward: Signature, backward: Signature, parameter: Parameter) -> Argument:
    name = parameter.name.removeprefix(_NEEDS)
    for position, source in enumerate(forward.parameters):
        if source.name == name and source.differentiable:
            if parameter.kind is not Kind.BOOL:
                raise DefinitionError(
                    f"{backward.name}: the parameter {parameter.name} is {parameter.kind.value}, but it says whether "
                    f"the gradient of {name} is needed: annotate it bool"
                )
            if backward.output(f"grad_{name}") is None:
                raise DefinitionError(
                    f"{backward.name}: the parameter {parameter.name} says whether grad_{name} is needed, but no "
                    "output has that name"
                )
            return Argument("needs", position)
    raise DefinitionError(
        f"{backward.name}: the parameter {parameter.name} asks for {name}, which is not a differentiable input of "
        f"{forward.name}. There are "
        + ", ".join(f"{_NEEDS}{source.name}" for source in forward.parameters if source.differentiable)
    )


def _check_tensor(where: str, kind: Kind, found: TensorType | None, expected: TensorType) -> None:
    if kind is not Kind.TENSOR or found is None:
        raise DefinitionError(f"{where} must be a tensor, {expected.text}")
    _check_type(where, found, expected)


def _check_type(where: str, found: TensorType, expected: TensorType) -> None:
    if found.element != expected.element or found.shape.rank != expected.shape.rank:
        raise DefinitionError(f"{where} is {found.text}, but the forward's is {expected.text}")


def _wire_output(forward: Signature, backward: Signature, index: int) -> int:
    output = backward.outputs[index]
    for position, parameter in enumerate(forward.parameters):
        if output.name == f"grad_{parameter.name}":
            if parameter.kind is Kind.TENSOR_LIST:
                raise DefinitionError(
                    f"{backward.name}: {parameter.name} is a list of tensors, and an operator cannot return a list of "
                    "gradients yet; leave the backward out, and the body is differentiated"
                )
            if not parameter.differentiable:
                raise DefinitionError(
                    f"{backward.name}: returns {output.name}, but {parameter.name} is declared without a gradient"
                )
            if parameter.passes_gradient is not None:
                raise DefinitionError(
                    f"{backward.name}: returns {output.name}, but {parameter.name} is declared to have the gradient of "
                    f"{parameter.passes_gradient} as its own"
                )
            return position
    raise DefinitionError(
        f"{backward.name}: the output {output.name} is not the gradient of an input of {forward.name}. A backward returns "
        f"{', '.join(default_gradient_names(forward))} in this order, or in the order of outputs="
    )
