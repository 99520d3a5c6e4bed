"""Derives the body of a backward whose own body is `...`: the gradient of the forward's body."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from typing import Any

from opsmith.errors import DefinitionError
from opsmith.spec.definition import Definition
from opsmith.spec.gradient import Wiring
from opsmith.spec.signature import Kind

__all__ = ["derived_body", "is_empty"]


def is_empty(function: Callable[..., Any]) -> bool:
    """Whether a body is `...`, `pass` or a docstring alone."""
    if getattr(function, "__code__", None) is not None and function.__code__.co_names:
        return False  # it uses something; to disassemble it takes longer
    used = {instruction.opname for instruction in dis.get_instructions(function)}
    trivial = {"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "NOP", "POP_TOP", "CACHE"}
    constants = [
        item.argval for item in dis.get_instructions(function) if item.opname in ("LOAD_CONST", "RETURN_CONST")
    ]
    return used <= trivial and all(constant is None or constant is Ellipsis for constant in constants)


def derived_body(forward: Definition, backward: Definition, wiring: Wiring) -> Callable[..., Any]:
    """Return the reference of a backward that declares none: the gradient of the forward's body."""
    from opsmith.runtime.differentiate import differentiate_body
    from opsmith.runtime.outputs import zero_outputs
    from opsmith.runtime.structs import flattener

    signature, function = forward.signature, backward.body
    flatten = flattener(backward.signature)
    given = {parameter.name for parameter in backward.signature.parameters}
    if missing := [parameter.name for parameter in signature.parameters if parameter.name not in given]:
        raise DefinitionError(
            f"{backward.name}: its body is empty, so it would be the gradient of {forward.name}'s body, but that needs "
            f"the input {missing[0]}, which is not one of its parameters. Add it, or write the body"
        )
    if any(parameter.kind is Kind.TENSOR_LIST for parameter in signature.parameters):
        raise DefinitionError(
            f"{backward.name}: {forward.name} takes a list of tensors; write the body of its gradient"
        )

    def derived(**arguments: Any) -> Any:
        _, arguments = flatten((), arguments) or ((), arguments)
        present = [parameter.name for parameter in signature.tensors if arguments[parameter.name] is not None]
        names = [signature.parameters[index].name for index in wiring.inputs]
        needed = [
            name
            for name, output in zip(names, backward.signature.outputs, strict=True)
            if output.needed_by is None or arguments[output.needed_by]
        ]
        wanted = [index for index, name in enumerate(present) if name in needed]
        found: list[Any] = []
        if wanted:
            found = differentiate_body(
                forward.body,
                signature,
                [arguments[parameter.name] for parameter in signature.parameters],
                [arguments.get(f"grad_{output.name}") for output in signature.outputs],
                wanted,
            )
        by_name = {present[index]: gradient for index, gradient in zip(wanted, found, strict=True)}
        gradients = [by_name.get(name) for name in names]
        if any(gradient is None for gradient in gradients):
            # What the result does not depend on has the gradient zero; so has an optional tensor that was not given.
            # And what is not needed has the form without elements.
            zeros = zero_outputs(backward.signature, arguments)
            gradients = [
                zero if gradient is None else gradient for gradient, zero in zip(gradients, zeros, strict=True)
            ]
        return tuple(gradients) if len(gradients) != 1 else gradients[0]

    functools.update_wrapper(derived, function)
    return derived
