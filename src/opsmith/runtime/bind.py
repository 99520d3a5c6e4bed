"""Binds the arguments of a call to parameters by Python's rules, and raises typed exceptions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from numbers import Number
from typing import Any, NoReturn

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, describe
from opsmith.runtime.scalars import CHANGES_SILENTLY, IS_CONVERTED
from opsmith.spec.signature import Kind, Parameter, Signature, Struct

__all__ = ["bind_arguments", "refuse_struct", "scalar_check"]

_CHECKS: dict[Kind, Callable[[Any], bool]] = {
    **IS_CONVERTED,
    Kind.TENSOR: lambda value: isinstance(value, Tensor),
    Kind.OPTIONAL_TENSOR: lambda value: value is None or isinstance(value, Tensor),
    Kind.TENSOR_LIST: lambda value: (
        isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, Tensor) for item in value)
    ),
}
_EXPECTED: dict[Kind, str] = {
    Kind.TENSOR: "a tensor",
    Kind.OPTIONAL_TENSOR: "a tensor or None",
    Kind.TENSOR_LIST: "a list of tensors",
    Kind.INT_LIST: "a list of ints",
    Kind.FLOAT_LIST: "a list of floats",
    Kind.OPTIONAL_INT: "an int or None",
    Kind.OPTIONAL_FLOAT: "a float or None",
    Kind.OPTIONAL_BOOL: "a bool or None",
    Kind.INT: "an int",
    Kind.FLOAT: "a float",
    Kind.BOOL: "a bool",
    Kind.STR: "a str",
}
_NUMBERS = frozenset({Kind.INT, Kind.FLOAT, Kind.OPTIONAL_INT, Kind.OPTIONAL_FLOAT, Kind.INT_LIST, Kind.FLOAT_LIST})


def bind_arguments(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return every argument by name, with defaults; raises ArgumentTypeError for one missing, unknown or of a wrong type."""
    positional = [parameter for parameter in signature.parameters if not parameter.keyword_only]
    if len(args) > len(positional):
        raise ArgumentTypeError(
            f"{signature.name}(): got {len(args)} positional arguments, takes at most {len(positional)}: "
            f"{', '.join(parameter.name for parameter in positional)}"
        )
    values = {parameter.name: value for parameter, value in zip(positional, args, strict=False)}
    for name, value in kwargs.items():
        if signature.parameter(name) is None:
            names = ", ".join(map(_name, signature.declared))
            raise ArgumentTypeError(f"{signature.name}(): there is no argument {name}; it takes {names}")
        if name in values:
            raise ArgumentTypeError(f"{signature.name}(): {name} is given twice, by position and by name")
        values[name] = value
    for parameter in signature.parameters:
        if parameter.name not in values:
            if not parameter.has_default:
                raise ArgumentTypeError(f"{signature.name}(): {parameter.label} is missing: {_describe(parameter)}")
            values[parameter.name] = parameter.default
        value = values[parameter.name]
        if parameter.struct is not None and is_dataclass(value):
            refuse_struct(signature, parameter.struct, value)
        if not _CHECKS[parameter.kind](value):
            raise _wrong_type(signature, parameter, value)
        if parameter.kind in (Kind.INT, Kind.OPTIONAL_INT) and not isinstance(value, int | torch.SymInt | None):
            values[parameter.name] = operator.index(value)  # sizes are computed with it
    return {parameter.name: values[parameter.name] for parameter in signature.parameters}


def scalar_check(signature: Signature) -> Callable[[Sequence[Any], Mapping[str, Any]], None] | None:
    """Return a function that refuses what PyTorch would silently take for another value; None if that cannot be."""
    checked = [
        (index, parameter, changes)
        for index, parameter in enumerate(signature.parameters)
        if (changes := CHANGES_SILENTLY.get(parameter.kind)) is not None
    ]

    def refuse_changed(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for index, parameter, changes in checked:
            if index < len(args):
                value = args[index]
            elif parameter.name in kwargs:
                value = kwargs[parameter.name]
            else:
                continue
            if type(value) is not int and type(value) is not bool and changes(value):
                raise _wrong_type(signature, parameter, value)

    return refuse_changed if checked else None


def refuse_struct(signature: Signature, struct: Struct, value: Any) -> NoReturn:
    """Raise the exception for an argument that is not the dataclass it should be."""
    raise ArgumentTypeError(
        f"{signature.name}(): {struct.name} is {describe(value)}, expected {struct.type.__name__} or its "
        f"fields: {', '.join(struct.fields)}"
    )


def _wrong_type(signature: Signature, parameter: Parameter, value: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{signature.name}(): {parameter.label} is {describe(value)}, expected {_describe(parameter)}"
        f"{_hint(parameter, value)}"
    )


def _hint(parameter: Parameter, value: Any) -> str:
    if parameter.kind in (Kind.TENSOR, Kind.OPTIONAL_TENSOR):
        if type(value).__name__ == "ndarray":
            return "; torch.from_numpy makes a tensor of it"
        return "; torch.tensor makes a tensor of it" if isinstance(value, Number | list) else ""
    items = value if isinstance(value, list | tuple) else [value]
    if parameter.kind in _NUMBERS and any(isinstance(item, int) and item.bit_length() > 63 for item in items):
        return "; it needs more than 64 bits"
    if parameter.kind is Kind.STR and isinstance(value, str):
        return "; it has half of a surrogate pair, which UTF-8 cannot encode"
    return ""


def _name(item: Parameter | Struct) -> str:
    return f"{item.name} ({', '.join(item.fields)})" if isinstance(item, Struct) else item.name


def _describe(parameter: Parameter) -> str:
    words = _EXPECTED[parameter.kind]
    return f"{words}, {parameter.tensor.text}" if parameter.tensor is not None else words
