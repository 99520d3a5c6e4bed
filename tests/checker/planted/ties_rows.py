"""Ties decided in another way: exact inputs have exact answers, so one unit to either side excuses nothing."""

from __future__ import annotations

from row import rows

__all__ = ["ROWS"]

_MORE = ("magnitude", "sizes", "strides", "special values")
_BOTH = ("float32", "bfloat16")

ROWS = rows(
    "ties",
    "ties",
    ("histogram", "value", "what equals the right edge is dropped", _MORE, _BOTH),
    ("rounded", "value", "a half goes away from zero, not to the even number", _MORE, _BOTH),
    ("quantized", "value", "a half goes up, not to the even number", _MORE, _BOTH),
    ("sign", "value", "the sign of 0 is 1", _MORE, _BOTH),
    ("above", "value", ">= instead of > the limit", _MORE, _BOTH),
    ("lowered", "value", "an integer is rounded down to the one below", _MORE, _BOTH),
    ("place", "value", "the place behind equal edges, not before", _MORE, _BOTH),
    ("within", "value", "the upper bound counts as inside", _MORE, _BOTH),
    ("least", "value", "of equal numbers it takes the last one", _MORE, _BOTH),
    ("after_decimal", "value", "a negative integer leaves 1, not 0", _MORE, _BOTH),
    ("magnitude", "gradient", "the slope of |x| at 0 is 1, not 0", ("func.grad",), _BOTH),
    ("limited", "gradient", "the slope at the bound is 1, not 0", ("func.grad",), _BOTH),
    ("rectified", "gradient", "the slope of a ReLU at 0 is 1, not 0", ("func.grad",), _BOTH),
)
