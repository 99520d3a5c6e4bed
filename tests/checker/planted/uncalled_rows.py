"""The defects of `uncalled.py`: nothing is wrong as long as nothing is called."""

from __future__ import annotations

from row import VALUES, Planted, rows

__all__ = ["ROWS"]

_VALUES = tuple(name for name in VALUES if name != "value")
ROWS: tuple[Planted, ...] = rows(
    "uncalled",
    "not run",
    ("rows_of", "gradient", "of several gradients for one row of a table the last one stays", ("func.grad",)),
    ("one_of_two", "value", "the wrong one of two, where indices of 0 to 3 are refused", _VALUES),
    ("far_rows", "sizes", "an index is kept in 8 bits", ("value", "magnitude", "strides")),
    ("signed_root", "value", "the sign is lost, and the reference takes float32 alone", _VALUES),
    ("in_basis", "value", "a matrix is transposed, which the reference has in float32", _VALUES),
    ("short_mantissa", "value", "too many bits are cut off, which only float32 has", _VALUES),
    ("of_segments", "value", "a sum is too short, and every generated call is refused", (*_VALUES, "sizes")),
)
