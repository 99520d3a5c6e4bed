"""Rows of special values: -inf or NaN throughout, one finite number among -inf, +inf in one place, all equal."""

from __future__ import annotations

from row import rows

__all__ = ["ROWS"]

_MORE = ("value", "determinism")

ROWS = rows(
    "special_rows",
    "rows",
    ("masked_softmax", "special values", "a row of -inf gives 0 instead of NaN", _MORE),
    ("log_of_sum", "special values", "a row of -inf gives NaN instead of -inf", _MORE),
    ("most", "special values", "a maximum that starts with the smallest finite number", _MORE),
    ("place_of_most", "special values", "a row of -inf has its largest at the end", _MORE),
    ("entropy", "special values", "0 * log(0) is NaN where a probability is 0 because of -inf", _MORE),
    ("stretched", "value", "a row of equal numbers is 0 / 0", ("special values", "gradient")),
    ("mean_of_numbers", "special values", "a row of NaN has the mean 0", _MORE),
    ("columns_most", "special values", "the maximum of a column starts with -1e30", _MORE),
    ("one_most", "special values", "a vector of -inf gives NaN instead of -inf", _MORE),
)
