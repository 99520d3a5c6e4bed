"""Binds the arguments of a call to parameters by Python's rules, and raises typed exceptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError
from opsmith.spec.signature import Kind, Parameter, Signature, Struct

__all__ = ["bind_arguments", "integer_check", "refuse_struct"]

_INTEGERS = (int, torch.SymInt)
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)

_SCALAR_CHECKS: dict[Kind, Callable[[Any], bool]] = {
    Kind.INT: lambda value: isinstance(value, _INTEGERS) and not isinstance(value, bool),
    Kind.FLOAT: lambda value: isinstance(value, _NUMBERS) and not isinstance(value, bool),
    Kind.BOOL: lambda value: isinstance(value, bool),
    Kind.STR: lambda value: isinstance(value, str),
    Kind.INT_LIST: lambda value: _is_list(value, _INTEGERS),
    Kind.FLOAT_LIST: lambda value: _is_list(value, _NUMBERS),
    Kind.OPTIONAL_INT: lambda value: value is None or isinstance(value, _INTEGERS),
    Kind.OPTIONAL_FLOAT: lambda value: value is None or isinstance(value, _NUMBERS),
    Kind.OPTIONAL_BOOL: lambda value: value is None or isinstance(value, bool),
    Kind.TENSOR: lambda value: isinstance(value, Tensor),
    Kind.OPTIONAL_TENSOR: lambda value: value is None or isinstance(value, Tensor),
    Kind.TENSOR_LIST: lambda value: _is_list(value, (Tensor,)),
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
        if not _SCALAR_CHECKS[parameter.kind](value):
            raise _wrong_type(signature, parameter, value)
    return {parameter.name: values[parameter.name] for parameter in signature.parameters}


def integer_check(signature: Signature) -> Callable[[Sequence[Any], Mapping[str, Any]], None] | None:
    """Return a function that refuses what PyTorch would round for an int; None if the operator takes no ints.

    PyTorch takes whatever has `__int__`: `numpy.float32(1.5)` and `torch.tensor(1.5)` count as 1.
    """
    integers = [
        (index, parameter)
        for index, parameter in enumerate(signature.parameters)
        if parameter.kind in (Kind.INT, Kind.OPTIONAL_INT, Kind.INT_LIST)
    ]

    def refuse_rounding(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for index, parameter in integers:
            value = args[index] if index < len(args) else kwargs.get(parameter.name)
            if type(value) is int or value is None:
                continue
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if type(item) is not int and not _is_integer(item):
                    raise _wrong_type(signature, parameter, value)

    return refuse_rounding if integers else None


def _is_integer(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not (value.is_floating_point() or value.is_complex())
    return hasattr(type(value), "__index__") or not hasattr(type(value), "__int__")  # the latter PyTorch refuses


def refuse_struct(signature: Signature, struct: Struct, value: Any) -> NoReturn:
    """Raise the exception for an argument that is not the dataclass it should be."""
    raise ArgumentTypeError(
        f"{signature.name}(): {struct.name} is {type(value).__name__} {value!r:.60}, expected {struct.type.__name__} or its "
        f"fields: {', '.join(struct.fields)}"
    )


def _wrong_type(signature: Signature, parameter: Parameter, value: Any) -> ArgumentTypeError:
    found = f"{type(value).__name__} {value!r:.60}"
    return ArgumentTypeError(f"{signature.name}(): {parameter.label} is {found}, expected {_describe(parameter)}")


def _name(item: Parameter | Struct) -> str:
    return f"{item.name} ({', '.join(item.fields)})" if isinstance(item, Struct) else item.name


def _describe(parameter: Parameter) -> str:
    words = _EXPECTED[parameter.kind]
    return f"{words}, {parameter.tensor.text}" if parameter.tensor is not None else words


def _is_list(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, (list, tuple, torch.Size)) and all(isinstance(item, kinds) for item in value)
