"""Turns dataclass arguments of a call into the schema's arguments, and back for functions that take dataclasses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from opsmith.errors import ArgumentTypeError
from opsmith.runtime.bind import bind_arguments
from opsmith.spec.signature import Parameter, Signature, Struct

__all__ = ["flatten_call", "with_dataclasses"]


def flatten_call(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return a call with the fields of dataclasses in their place, as `torch.ops` takes it; None where it has none.

    Raises ArgumentTypeError for an object that is not the dataclass, and for a field that is given twice.
    """
    positional = _positional(signature)
    flat: list[Any] = []
    has_found = False
    for value in args:
        struct = _begins_with(positional, len(flat)) if is_dataclass(value) else None
        if struct is not None:
            flat += _fields(signature, struct, value)
            has_found = True
        else:
            flat.append(value)
    named = dict(kwargs)
    taken = {parameter.name for parameter in positional[: len(flat)]}
    for struct in signature.structs:
        if struct.name in named:
            values = _fields(signature, struct, named.pop(struct.name))
            has_found = True
            for name, value in zip(struct.fields, values, strict=True):
                if name in named or name in taken:
                    raise ArgumentTypeError(
                        f"{signature.name}(): {name} is given twice, in {struct.name} and outside of it"
                    )
                named[name] = value
    return (tuple(flat), named) if has_found else None


def with_dataclasses(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """Return a function that can be called in every way an operator can, for one that takes what the definition takes.

    It is the function itself where the definition has no dataclass.
    """
    if not signature.structs:
        return function
    names = [parameter.name for parameter in _positional(signature)]
    defaults = {item.name: item.default for item in signature.parameters if item.struct and item.has_default}

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = flatten_call(signature, args, kwargs) or (args, kwargs)
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or any(name in given for name in kwargs):
            bind_arguments(signature, args, kwargs)  # which says what is wrong
        given = {**defaults, **given, **kwargs}
        arguments = {}
        for item in signature.declared:
            if isinstance(item, Struct):
                arguments[item.name] = item.type(**{name: given.pop(name) for name in item.fields if name in given})
            elif item.name in given:
                arguments[item.name] = given.pop(item.name)
        named = {
            item.name: arguments.pop(item.name)
            for item in signature.declared
            if item.keyword_only and item.name in arguments
        }
        if len(arguments) + len(named) == len(signature.declared):
            return function(*arguments.values(), **named, **given)
        return function(**arguments, **named, **given)

    return called


def _positional(signature: Signature) -> list[Parameter]:
    return [parameter for parameter in signature.parameters if not parameter.keyword_only]


def _begins_with(parameters: Sequence[Parameter], index: int) -> Struct | None:
    """Return the dataclass whose first field is the parameter at an index, or None."""
    struct = parameters[index].struct if index < len(parameters) else None
    return struct if struct is not None and parameters[index].name == struct.fields[0] else None


def _fields(signature: Signature, struct: Struct, value: Any) -> list[Any]:
    if not isinstance(value, struct.type):
        raise ArgumentTypeError(
            f"{signature.name}(): {struct.name} is {type(value).__name__} {value!r:.60}, expected {struct.type.__name__} "
            f"or its fields: {', '.join(struct.fields)}"
        )
    return [getattr(value, name) for name in struct.fields]
