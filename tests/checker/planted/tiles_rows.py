"""The defects of `tiles.py`: sizes that come together, widths with code of their own, long rows, far elements."""

from __future__ import annotations

from row import Planted, rows

__all__ = ["ROWS"]

ROWS: tuple[Planted, ...] = rows(
    "tiles",
    "sizes",
    ("tiled", "sizes", "the tile at the corner of a grid of 2 x 2 is walked with the wrong pitch", ("strides",)),
    ("tiled_turn", "sizes", "a tile's last row is lost where both sides have a second one", ("strides",)),
    ("outer", "sizes", "with three tiles across and two down, the last is scaled twice", ("strides",)),
    ("thirds", "sizes", "sizes that 48 divides an odd number of times lose 16 elements"),
    ("head_of_80", "sizes", "80 columns have the scale of 96"),
    ("unrolled_96", "sizes", "96 columns are summed as 64"),
    ("two_per_192", "sizes", "two rows of 192 columns share their mean"),
    ("norm_of_384", "sizes", "of 384 columns the last 128 are not counted"),
    ("hidden_768", "sizes", "768 columns have some weights of others"),
    ("any_above", "sizes", "rows are looked at up to element 65,535"),
    ("least", "sizes", "rows are looked at up to element 32,767"),
    ("place_of_most", "sizes", "a place beyond 32,767 is kept in 16 bits"),
    ("squares_of_rows", "large", "the backward keeps an offset into its input in 32 bits"),
    ("tripled", "large", "the backward keeps an offset into the gradient in 32 bits"),
    ("tiled_weights", "gradient", "the second tile of rows overwrites the sums of the first"),
)
