"""Tells which Python values PyTorch converts to the scalars of a schema, and which of those it changes silently."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from numbers import Integral, Number
from typing import Any

import torch
from torch import Tensor

from opsmith.spec.signature import Kind

__all__ = ["CHANGES_SILENTLY", "IS_CONVERTED"]


def _is_int(value: Any) -> bool:
    # Converting a symbol would make it the number of this call.
    if isinstance(value, torch.SymInt):
        return True
    number = _number(value, operator.index)
    return number is not None and -(1 << 63) <= number < 1 << 63


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.SymInt | torch.SymFloat) or _number(value, float) is not None


def _is_bool(value: Any) -> bool:
    if isinstance(value, torch.SymBool):
        return True
    # Python itself takes any object for a bool.
    return hasattr(type(value), "__bool__") and _number(value, bool) is not None and not _is_rounded_to_bool(value)


def _is_str(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _number(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return what a number converts to, or a tensor or array of one; None for anything else."""
    if isinstance(value, str | bytes) or (getattr(value, "ndim", 0) > 0 and not isinstance(value, Tensor)):
        return None
    try:
        return convert(value)
    except Exception:  # a number too large, a tensor of several, an exception of the object's own
        return None


def _list_of(is_converted: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_list(value: Any) -> bool:
        if isinstance(value, str | bytes | dict | Tensor) or not isinstance(value, Iterable):
            return False
        return all(is_converted(item) for item in value)

    return is_list


def _or_none(is_converted: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_converted(value)


# By kind: whether PyTorch takes a value for it, and opsmith does not refuse that.
IS_CONVERTED: dict[Kind, Callable[[Any], bool]] = {
    Kind.INT: _is_int,
    Kind.FLOAT: _is_float,
    Kind.BOOL: _is_bool,
    Kind.STR: _is_str,
    Kind.INT_LIST: _list_of(_is_int),
    Kind.FLOAT_LIST: _list_of(_is_float),
    Kind.OPTIONAL_INT: _or_none(_is_int),
    Kind.OPTIONAL_FLOAT: _or_none(_is_float),
    Kind.OPTIONAL_BOOL: _or_none(_is_bool),
}


def _is_rounded(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.is_floating_point() or value.is_complex()
    return hasattr(type(value), "__int__") and not hasattr(type(value), "__index__")


def _is_rounded_in_list(value: Any) -> bool:
    return isinstance(value, Iterable) and any(type(item) is not int and _is_rounded(item) for item in value)


def _is_rounded_to_bool(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.is_floating_point() or value.is_complex()
    return value is None or (isinstance(value, Number) and not isinstance(value, Integral))


# By kind: whether PyTorch would take another value than the one that is given, and say nothing. It takes whatever has
# `__int__` or `__bool__`, and bytes for text: numpy.float32(1.5) and a tensor of 1.5 count as 1, None as False.
CHANGES_SILENTLY: dict[Kind, Callable[[Any], bool]] = {
    Kind.INT: _is_rounded,
    Kind.BOOL: _is_rounded_to_bool,
    Kind.STR: lambda value: isinstance(value, bytes),
    Kind.INT_LIST: _is_rounded_in_list,
    Kind.OPTIONAL_INT: lambda value: value is not None and _is_rounded(value),
    Kind.OPTIONAL_BOOL: lambda value: value is not None and _is_rounded_to_bool(value),
}
