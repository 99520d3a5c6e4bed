"""Reads one annotation of a definition: the kind of the argument, its tensor type, and whether its default fits."""

from __future__ import annotations

import math
import sys
import types
import typing
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from opsmith.errors import DefinitionError
from opsmith.spec.dims import fits_64_bits
from opsmith.spec.dtypes import GENERICS, element_of_jaxtyping
from opsmith.spec.shapes import parse_shape
from opsmith.spec.signature import Kind, TensorType

__all__ = [
    "CAN_BE",
    "as_declared",
    "check_default",
    "choices_in",
    "is_jaxtyping",
    "name_of",
    "read_kind",
    "read_tensor",
]

_SCALARS: dict[Any, Kind] = {int: Kind.INT, float: Kind.FLOAT, bool: Kind.BOOL, str: Kind.STR}
_OPTIONALS: dict[Kind, Kind] = {
    Kind.TENSOR: Kind.OPTIONAL_TENSOR,
    Kind.INT: Kind.OPTIONAL_INT,
    Kind.FLOAT: Kind.OPTIONAL_FLOAT,
    Kind.BOOL: Kind.OPTIONAL_BOOL,
}
_LIST_ORIGINS = (list, tuple, Sequence)
# What takes the place of a class that is no kind of argument.
_INSTEAD = {
    "torch.Tensor": "write its element type and its shape: Float[Tensor, 'B N'], with Float of jaxtyping",
    "torch.dtype": "take a name, such as Literal['float16', 'float32'], or a tensor of that dtype",
    "torch.device": "an operator runs on the device of its tensors",
    "torch.Size": "take a list[int]",
    "builtins.complex": "take two floats",
}
_LISTS: dict[Kind, Kind] = {Kind.TENSOR: Kind.TENSOR_LIST, Kind.INT: Kind.INT_LIST, Kind.FLOAT: Kind.FLOAT_LIST}
CAN_BE = (
    "a jaxtyping annotation of torch.Tensor such as Float[Tensor, 'B N'] (optional with `| None`, or a list of them), "
    "int, float, bool, str, int | None, float | None, bool | None, list[int], list[float], a Literal of texts or of ints, "
    "or a frozen dataclass of numbers"
)


def read_kind(where: str, annotation: Any) -> tuple[Kind, TensorType | None]:
    """Return an annotation's meaning; raises DefinitionError, which starts with `where`, for an invalid one."""
    if annotation in _SCALARS:
        return _SCALARS[annotation], None
    if is_jaxtyping(annotation):
        return Kind.TENSOR, read_tensor(where, annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal and len(types_of := {type(value) for value in arguments}) == 1:
        (type_of,) = types_of
        if type_of in (int, str):
            return _SCALARS[type_of], None
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        if len(inner) == 1 and len(arguments) == 2:
            kind, tensor = read_kind(where, inner[0])
            if kind in _OPTIONALS:
                return _OPTIONALS[kind], tensor
    if origin in (list, Sequence) or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
        kind, tensor = read_kind(where, arguments[0])
        if kind in _LISTS:
            if tensor is not None and tensor.shape.variadic_index is not None:
                raise DefinitionError(
                    f"{where}: a list's tensors cannot have the variadic dimension in {tensor.shape.text!r}; name each"
                )
            return _LISTS[kind], tensor
    raise DefinitionError(
        f"{where} is annotated {name_of(annotation)}, which an operator cannot take; "
        + (_instead_of(annotation, origin, arguments) or f"it can be {CAN_BE}")
    )


def _instead_of(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> str:
    """Return what to write for an annotation that people try; "" where nothing but the list of all helps."""
    if isinstance(annotation, type) and origin is None:
        return _instead_of_class(annotation)
    if origin in (typing.Union, types.UnionType):
        return _instead_of_union([argument for argument in arguments if argument is not type(None)])
    if origin in _LIST_ORIGINS and bool in arguments:
        return "take a list[int] of zeros and ones"
    if origin in _LIST_ORIGINS and any(type(None) in typing.get_args(argument) for argument in arguments):
        return "a list's elements are all given: leave absent ones out, and pass the places of the others"
    return ""


def _instead_of_class(annotation: type) -> str:
    if not issubclass(annotation, Enum):
        return _INSTEAD.get(f"{annotation.__module__}.{annotation.__qualname__}", "")
    values = [member.value for member in annotation]
    names = values if all(isinstance(value, str) for value in values) else list(annotation.__members__)
    return f"take its values by name: Literal[{', '.join(map(repr, names))}]"


def _instead_of_union(present: list[Any]) -> str:
    if set(present) == {int, float}:
        return "take a float, which an int fits too"
    if present == [str]:
        return "take a str, and let '' stand for None"
    is_list = len(present) == 1 and typing.get_origin(present[0]) in _LIST_ORIGINS
    return "take the list itself, and let an empty one stand for None" if is_list else ""


def choices_in(annotation: Any) -> tuple[Any, ...]:
    """Return the values of a Literal; empty for other annotations."""
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()


def read_tensor(where: str, annotation: Any) -> TensorType:
    """Return the element type and shape of a jaxtyping annotation; raises DefinitionError for arrays of other libraries."""
    import torch

    if annotation.array_type is not torch.Tensor:
        raise DefinitionError(f"{where} is annotated {name_of(annotation)}; only torch.Tensor can be annotated so")
    element = element_of_jaxtyping(annotation.dtype.__name__)
    if element is None:
        raise DefinitionError(
            f"{where} is annotated {name_of(annotation)}; opsmith's element types are {', '.join(GENERICS)} (generic) "
            "and Float16, BFloat16, Float32, Float64, Int8 ... Int64, UInt8, Bool (pinned)"
        )
    return TensorType(element, parse_shape(annotation.dim_str, where=where), name_of(annotation))


def check_default(where: str, annotation: Any, kind: Kind, default: Any) -> None:
    """Raise DefinitionError for a default that is not a value of the argument's kind, which its annotation has."""
    checks: dict[Kind, Callable[[Any], bool]] = {
        Kind.INT: _is_int,
        Kind.FLOAT: _is_finite,
        Kind.BOOL: lambda value: isinstance(value, bool),
        Kind.STR: lambda value: isinstance(value, str),
        Kind.INT_LIST: lambda value: isinstance(value, (list, tuple)) and all(map(_is_int, value)),
        Kind.FLOAT_LIST: lambda value: isinstance(value, (list, tuple)) and all(map(_is_finite, value)),
        Kind.OPTIONAL_TENSOR: lambda value: value is None,
        Kind.OPTIONAL_INT: lambda value: value is None or _is_int(value),
        Kind.OPTIONAL_FLOAT: lambda value: value is None or _is_finite(value),
        Kind.OPTIONAL_BOOL: lambda value: value is None or isinstance(value, bool),
    }
    if kind not in checks or not checks[kind](default):
        hint = _instead_of_default(annotation, kind, default)
        raise DefinitionError(f"{where} is {kind.value} and cannot have the default {_shown(default)}{hint}")
    declared = as_declared(kind, default)
    for value in declared if isinstance(declared, list) else [declared]:
        if why := _why_unreadable(value):
            raise DefinitionError(f"{where} cannot have the default {_shown(value)}: {why}")


def _instead_of_default(annotation: Any, kind: Kind, default: Any) -> str:
    """Return what to write in place of a default; "" where nothing but another value helps."""
    if isinstance(default, float):  # PyTorch's schema language has no words for inf and nan
        return "; use the default None and replace it in the body"
    if default is not None:
        return ""
    if kind in _OPTIONALS and not choices_in(annotation):
        return f"; annotate it {name_of(annotation)} | None"
    instead = _instead_of_union([annotation])
    return f"; {instead}" if instead else ""


def _why_unreadable(value: Any) -> str:
    """Return why a default cannot stand in a schema, or ""."""
    if isinstance(value, str) and "\0" in value:
        return "PyTorch ends a text at its first NUL"
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        return "a lone surrogate is not text"
    if _is_int(value) and not fits_64_bits(value):
        return "an int of an operator has 64 bits"
    if isinstance(value, float) and 0 < abs(value) < sys.float_info.min:
        return f"PyTorch reads no number below {sys.float_info.min:.3g}; use 0.0"
    return ""


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print an int of thousands of digits
        return "that large"
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_declared(kind: Kind, default: Any) -> Any:
    """Return a default with the type of its argument: PyTorch would hand `scale: float | None = 1` on as an int."""
    if kind in (Kind.FLOAT, Kind.OPTIONAL_FLOAT) and default is not None:
        return float(default)
    if kind is Kind.FLOAT_LIST:
        return [float(value) for value in default]
    return list(default) if kind is Kind.INT_LIST else default


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    if not _is_int(value) and not isinstance(value, float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False


def is_jaxtyping(annotation: Any) -> bool:
    """Whether an annotation is a tensor with element type and shape."""
    return isinstance(annotation, type) and hasattr(annotation, "dim_str") and hasattr(annotation, "array_type")


def name_of(annotation: Any) -> str:
    """Return an annotation as the user wrote it."""
    if is_jaxtyping(annotation):
        return f'{annotation.dtype.__name__}[{annotation.array_type.__name__}, "{annotation.dim_str}"]'
    # Python 3.10 calls list[int] a type.
    is_plain = isinstance(annotation, type) and typing.get_origin(annotation) is None
    return annotation.__name__ if is_plain else str(annotation)
