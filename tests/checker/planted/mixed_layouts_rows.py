"""The defects of `mixed_layouts.py`: paths that are chosen by strides, and hold for more strides than they should."""

from __future__ import annotations

from row import Planted, rows

__all__ = ["ROWS"]

ROWS: tuple[Planted, ...] = rows(
    "mixed_layouts",
    "layouts",
    ("by_columns", "strides", "columns of a part of a transposed matrix are taken for dense"),
    ("times_columns", "strides", "the leading dimension of a transposed matrix is taken to be its height"),
    ("nhwc", "strides", "a part of a channels_last image is taken for a whole one"),
    ("copy_rows", "strides", "rows of 512 and more are copied in one piece, whatever lies between them"),
    ("in_vectors", "strides", "in rows of 512 and more, the distance of rows is counted in vectors of 8", ("sizes",)),
    ("two_steps", "strides", "where rows and columns are both apart, one of the distances is lost"),
    ("heads", "strides", "the first two dimensions exchanged are taken for contiguous"),
    ("batch_of_turned", "strides", "the last two dimensions exchanged are taken for all reversed"),
    ("spread_columns", "strides", "a column expanded to all is taken for one number"),
    ("turned_block", "strides", "a part of a large transposed matrix is wrong beyond its first tiles"),
    ("wide_scale", "gradient", "in rows of 512 and more, an expanded gradient is taken for one number", ("func.grad",)),
    ("wide_turned", "gradient", "in rows of 512 and more, gradients are taken for contiguous", ("func.grad",)),
    (
        "part_of_gradient",
        "gradient",
        "a gradient that is a part of a larger one is taken for contiguous",
        ("func.grad",),
    ),
)
