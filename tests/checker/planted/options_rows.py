"""The defects of `options.py`: numbers beyond the usual ones, texts, and options that come together."""

from __future__ import annotations

from row import Planted, rows

__all__ = ["ROWS"]

ROWS: tuple[Planted, ...] = rows(
    "options",
    "arguments",
    ("leaky", "arguments", "a slope above 1 is wrong"),
    ("shifted", "arguments", "a negative factor counts as 0"),
    ("smooth_l1", "arguments", "where beta is 0, small numbers are squared"),
    ("rolled", "arguments", "a negative distance does not go around"),
    ("column", "arguments", "a place that counts from the end is the first"),
    ("powers", "arguments", "an order above 4 counts as 4"),
    ("affine", "arguments", "a bias without a weight and a scale is ignored"),
    ("sums", "arguments", "two flags together are wrong"),
    ("reduced", "arguments", "one of the words that the body knows is wrong"),
    ("activated", "arguments", "one of the values of a Literal is wrong"),
    ("scaled", "arguments", "an optional number that is 0 counts as absent"),
    ("weighed_ends", "arguments", "the two numbers of a list are exchanged"),
    ("gated", "arguments", "without an optional tensor, a flag is ignored"),
    ("raised", "arguments", "a cube is a square"),
    ("squashed", "magnitude", "where tanh is 1, a scale is ignored", ("special values",)),
    ("lengthened", "sizes", "a place in the result is kept in 16 bits"),
    ("three_taps", "sizes", "blocks of 64 columns do not see each other", ("strides",)),
)
