"""The defects of `option_paths.py`: an option is right by itself, and wrong in long rows or in another layout."""

from __future__ import annotations

from row import Planted, rows

__all__ = ["ROWS"]

ROWS: tuple[Planted, ...] = rows(
    "option_paths",
    "options in other sizes and layouts",
    ("ungained_blocks", "sizes", "without a gain, blocks of 64 columns lose an element"),
    ("long_doubled", "sizes", "a flag is applied twice in long rows"),
    ("two_at_once", "sizes", "long rows without a gain that are reversed lose their sign"),
    ("ungained_dense", "strides", "without a gain, it takes its input for contiguous"),
    ("doubled_dense", "strides", "with a flag, it takes its input for contiguous"),
    ("many_summed", "arguments", "of a list, seven tensors are summed at most"),
    ("ungained_slope", "gradient", "without a gain, it takes the gradient that arrives for contiguous"),
    ("kept_exponential", "sizes", "more than 64 rows are wrong where something is kept for the backward"),
    ("frozen_gain", "gradient", "in long rows, the gradient is doubled where that of a gain is not needed"),
)
