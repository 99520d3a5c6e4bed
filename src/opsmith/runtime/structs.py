"""Turns dataclass arguments of a call into the schema's arguments, and back for functions that take dataclasses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opsmith.errors import ArgumentTypeError
from opsmith.runtime.bind import bind_arguments, refuse_struct
from opsmith.spec.signature import Signature, Struct

__all__ = ["Flatten", "flattener", "with_dataclasses"]

# Takes a call; returns it with the fields of dataclasses in their place, as `torch.ops` takes it, or None if it has
# no dataclass. Raises ArgumentTypeError for an object that is not the dataclass, and for a field that is given twice.
Flatten = Callable[[Sequence[Any], Mapping[str, Any]], tuple[tuple[Any, ...], dict[str, Any]] | None]


def flattener(signature: Signature) -> Flatten:
    """Return what flattens calls of an operator. It runs on every call with a dataclass, and under torch.compile."""
    # Keyword-only arguments stand behind all others, where no call by position comes to.
    index_of = {parameter.name: index for index, parameter in enumerate(signature.parameters)}
    by_name = {struct.name: struct for struct in signature.structs}
    by_index = {index_of[struct.fields[0]]: struct for struct in signature.structs if not struct.keyword_only}
    types = tuple(struct.type for struct in signature.structs)

    def flatten(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        flat: list[Any] = []
        named: dict[str, Any] = {}
        has_found = False
        for value in args:
            struct = by_index.get(len(flat)) if isinstance(value, types) else None
            if struct is not None and isinstance(value, struct.type):
                flat += [getattr(value, name) for name in struct.fields]
                has_found = True
            else:
                flat.append(value)
        for name, value in kwargs.items():
            struct = by_name.get(name)
            if struct is None:
                named[name] = value
                continue
            if not isinstance(value, struct.type):
                refuse_struct(signature, struct, value)
            has_found = True
            for field in struct.fields:
                if field in kwargs or index_of[field] < len(flat):
                    raise ArgumentTypeError(f"{signature.name}(): {field} is given twice, in {name} and outside it")
                named[field] = getattr(value, field)
        return (tuple(flat), named) if has_found else None

    return flatten


def with_dataclasses(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """Return a function that can be called in every way an operator can, for one that takes what the definition takes.

    It is the function itself where the definition has no dataclass.
    """
    if not signature.structs:
        return function
    names = [parameter.name for parameter in signature.parameters if not parameter.keyword_only]
    defaults = {item.name: item.default for item in signature.parameters if item.struct and item.has_default}
    positional = [item.name for item in signature.declared if not item.keyword_only]
    flatten = flattener(signature)

    def is_as_declared(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        given = {**dict(zip(positional, args, strict=False)), **kwargs}
        return all(isinstance(given.get(struct.name), struct.type) for struct in signature.structs)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if is_as_declared(args, kwargs):
            return function(*args, **kwargs)
        args, kwargs = flatten(args, kwargs) or (args, kwargs)
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or any(name in given for name in kwargs):
            bind_arguments(signature, args, kwargs)  # which says what is wrong
        given = {**defaults, **given, **kwargs}
        arguments: dict[str, Any] = {}
        for item in signature.declared:
            if isinstance(item, Struct):
                arguments[item.name] = item.type(**{name: given.pop(name) for name in item.fields if name in given})
            elif item.name in given:
                arguments[item.name] = given.pop(item.name)
        if len(arguments) < len(signature.declared):
            return function(**arguments, **given)
        # By position where that is how they are declared: a rule may call its parameters otherwise.
        leading = [arguments.pop(name) for name in positional]
        return function(*leading, **arguments, **given)

    return called
