"""Checks the arguments of functions, as opsmith does those of operators: an error names the function and what it found.

TorchScript cannot compile these checks: what it compiles calls them where `torch.jit.is_scripting()` is false.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DeviceError, DtypeError, ShapeError, describe

__all__ = [
    "TensorShapeError",
    "TensorTypeError",
    "UnsupportedValueError",
    "as_int",
    "as_tensor",
    "check_choice",
    "check_flags",
    "check_ints",
    "check_numbers",
    "check_promotable",
    "check_storage",
    "check_tensors",
    "check_texts",
    "is_int",
    "read_pair",
    "read_size",
]


class TensorShapeError(ShapeError, RuntimeError, AssertionError):
    """A shape that torchvision and mmcv reject by a RuntimeError or an AssertionError."""


class TensorTypeError(ArgumentTypeError, AssertionError):
    """A type that torchvision and mmcv reject by an AssertionError."""


class UnsupportedValueError(ArgumentValueError, AssertionError):
    """A number or text that mmcv rejects by an AssertionError."""


def as_tensor(function: str, name: str, value: Any, dtype: torch.dtype | None = None) -> Tensor:
    """Return what `torch.as_tensor` does; raises ArgumentTypeError where that raises anything."""
    try:
        return torch.as_tensor(value, dtype=dtype)
    except Exception as error:
        raise ArgumentTypeError(
            f"{function}(): {name} is {describe(value)}, expected a tensor, array or numbers ({error})"
        ) from None


def check_tensors(function: str, *, optional: Sequence[str] = (), **tensors: Any) -> None:
    """Raise ArgumentTypeError for what is not a tensor; those named in `optional` may be None."""
    for name, value in tensors.items():
        if not isinstance(value, Tensor) and not (value is None and name in optional):
            hint = "; torch.from_numpy makes a tensor of it" if type(value).__name__ == "ndarray" else ""
            raise ArgumentTypeError(f"{function}(): {name} is {describe(value)}, expected a tensor{hint}")


def check_promotable(function: str, **tensors: Tensor) -> None:
    """Raise DtypeError for two tensors whose types have no common one, or whose common one would lose imaginary parts."""
    (name, one), (other_name, other) = tensors.items()
    try:
        is_complex = torch.promote_types(torch.promote_types(one.dtype, other.dtype), torch.float32).is_complex
    except RuntimeError:  # float8, for one
        is_complex = True
    if is_complex:
        raise DtypeError(
            f"{function}(): {name} is {one.dtype} and {other_name} {other.dtype}, expected real types that PyTorch promotes"
        )


def check_storage(function: str, **tensors: Tensor | None) -> None:
    """Raise ArgumentTypeError for a sparse tensor, and DeviceError for tensors of several devices."""
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    for name, tensor in given.items():
        if tensor.layout is not torch.strided:
            raise ArgumentTypeError(f"{function}(): {name} is {tensor.layout}; `.to_dense()` makes it strided")
    if len({tensor.device for tensor in given.values()}) > 1:
        found = ", ".join(f"{name} on {tensor.device}" for name, tensor in given.items())
        raise DeviceError(f"{function}(): found {found}, expected one device")


def check_numbers(function: str, **numbers: Any) -> None:
    """Raise ArgumentTypeError for what is not a number that fits into 64 bits, or a tensor or array of one."""
    for name, value in numbers.items():
        if type(value) is not float and not _is_number(value):
            raise ArgumentTypeError(f"{function}(): {name} is {describe(value)}, expected a number")


def check_ints(function: str, **ints: Any) -> None:
    """Raise ArgumentTypeError for what is not an integer. The operators refuse those of more than 64 bits."""
    for name, value in ints.items():
        if type(value) is not int and not is_int(value):
            raise ArgumentTypeError(f"{function}(): {name} is {describe(value)}, expected an int")


def read_pair(function: str, name: str, value: Any) -> tuple[int, int]:
    """Return (y, x) of an int, or of a sequence of one or two; raises ArgumentTypeError for anything else."""
    if type(value) is int:
        return value, value
    values = value if type(value) in _SEQUENCES or isinstance(value, Sequence) else (value,)
    if not 1 <= len(values) <= 2 or not is_int(values[0]) or not is_int(values[-1]):
        raise ArgumentTypeError(f"{function}(): {name} is {describe(value)}, expected an int or two of them")
    return as_int(values[0]), as_int(values[-1])


def read_size(function: str, name: str, value: Any) -> tuple[int, int]:
    """Return the (height, width) of an image; raises ArgumentTypeError for what is not two ints."""
    try:
        height, width = value
    except (TypeError, ValueError):
        height = width = None
    if not (is_int(height) and is_int(width)):
        raise ArgumentTypeError(f"{function}(): {name} is {describe(value)}, expected (height, width), two ints")
    return as_int(height), as_int(width)


def check_flags(function: str, **flags: Any) -> None:
    """Raise ArgumentTypeError for what is not a bool; 0 and 1 are, and arrays of one."""
    for name, value in flags.items():
        if type(value) is not bool and not isinstance(value, _INTEGERS) and getattr(value, "shape", None) != ():
            raise ArgumentTypeError(f"{function}(): {name} is {describe(value)}, expected a bool")


def check_texts(function: str, **texts: Any) -> None:
    """Raise ArgumentTypeError for what is not a str."""
    for name, value in texts.items():
        if not isinstance(value, str):
            raise ArgumentTypeError(f"{function}(): {name} is {describe(value)}, expected a str")


def check_choice(function: str, name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ArgumentValueError for what is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        *others, last = [f'"{choice}"' for choice in choices]
        raise ArgumentValueError(f"{function}(): {name} is {value!r:.60}, expected {', '.join(others)} or {last}")


def is_int(value: Any) -> bool:
    """Whether a value is an integer, or has `__index__` and makes one."""
    if type(value) is int or isinstance(value, torch.SymInt):
        return True
    if isinstance(value, _NO_INTEGERS):
        return False
    try:
        operator.index(value)
    except Exception:  # __index__ may raise anything
        return False
    return True


def as_int(value: Any) -> Any:
    """Return an int for a numpy.int64, whose products would overflow; what torch.compile knows as a symbol stays one."""
    return value if isinstance(value, _SIZES) else operator.index(value)


def _is_number(value: Any) -> bool:
    if type(value) is int:
        return -_MOST < value < _MOST
    if isinstance(value, _SYMBOLS):
        return True
    if isinstance(value, _TEXTS) or getattr(value, "shape", ()) != ():
        return False
    try:
        float(value)
    except Exception:  # too large, or an exception of the object's own
        return False
    return True


# An `X | Y` would be made anew at each call, which takes longer than all else here.
_SEQUENCES = frozenset({tuple, list})
_INTEGERS = (int, torch.SymBool)
_SIZES = (int, torch.SymInt)
_NO_INTEGERS = (bool, Tensor)
_SYMBOLS = (torch.SymInt, torch.SymFloat)
_TEXTS = (str, bytes)
# Larger ints are not numbers of float64.
_MOST = 1 << 1023
