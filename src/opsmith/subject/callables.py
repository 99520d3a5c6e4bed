"""Reads what others have made as a definition is read: a function, or an operator of `torch.ops`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from opsmith.errors import ArgumentError, DefinitionError
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.signature import Signature

__all__ = ["keyword_only_of", "overload_of", "parameters_of", "refuse_other_names", "signature_of"]


def refuse_other_names(name: str, schema: Any, signature: Signature) -> None:
    """Raise ArgumentError if generated arguments, which have the reference's names, do not fit the schema."""
    keywords = {parameter.name for parameter in signature.parameters if parameter.keyword_only}
    positional = [parameter.name for parameter in signature.parameters if not parameter.keyword_only]
    arguments = {argument.name: argument for argument in schema.arguments}
    fits = positional == [argument.name for argument in schema.arguments if not argument.kwarg_only][: len(positional)]
    left = arguments.keys() - keywords - set(positional)
    if (
        not fits
        or not all(keyword in arguments and arguments[keyword].kwarg_only for keyword in keywords)
        or not all(arguments[argument].has_default_value() for argument in left)
    ):
        raise ArgumentError(
            f"the reference takes {', '.join(p.name for p in signature.parameters)}; {name} takes "
            f"{', '.join(arguments)}: give the reference's parameters the operator's names"
        )


def keyword_only_of(schema: Any, reference: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters that go by name alone."""
    if schema is not None:
        return tuple(argument.name for argument in schema.arguments if argument.kwarg_only)
    try:
        parameters = inspect.signature(reference).parameters.values()
    except ValueError:  # a builtin has no signature to inspect
        return ()
    return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)


def overload_of(op: Any) -> Any:
    """Return the operator of `torch.ops` that a callable is, or None."""
    if isinstance(op, torch._ops.OpOverload):
        return op
    if isinstance(op, torch._ops.OpOverloadPacket):
        overloads = op.overloads()
        if len(overloads) != 1:
            raise ArgumentError(
                f"{op} has several overloads ({', '.join(overloads)}); name one, such as torch.ops.{op}.{overloads[0]}"
            )
        return getattr(op, overloads[0])
    if isinstance(found := getattr(op, "_opoverload", None), torch._ops.OpOverload):
        return found  # torch.library.custom_op
    return None


def signature_of(reference: Callable[..., Any], mutated: tuple[str, ...]) -> Signature | None:
    """Return what a reference's annotations say, or None if they are not those of a definition."""
    if not hasattr(reference, "__name__"):  # a partial function or a module
        return None
    choices = Choices(mutates=frozenset(mutated))
    try:
        signature = read_signature(reference, choices)
        # What others made is called as its reference is, and a case has no dataclasses.
        return None if signature.structs else signature
    except (DefinitionError, ValueError):
        return None  # ValueError: a builtin, such as torch.sin, has no signature to inspect


def parameters_of(*functions: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters of the first function that can be inspected."""
    for function in functions:
        try:
            return tuple(inspect.signature(function).parameters)
        except ValueError:
            continue
    raise ArgumentError(f"{functions[0]!r} has no signature to inspect: wrap it in a Python function")
