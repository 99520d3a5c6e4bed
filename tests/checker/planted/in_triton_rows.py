"""The defects planted into Triton kernels (in_triton_kernels.py), each with the property that must name it.

The interpreter runs one block after another, refuses no grid, and has no GPU's race: some defects need a GPU.
"""

from __future__ import annotations

from row import VALUES, Planted, rows

__all__ = ["NEED_A_GPU", "ROWS"]

# Memory that nobody has written or that lies outside holds anything.
_ANY = (*VALUES, "determinism", "gradient")

ROWS: tuple[Planted, ...] = rows(
    "in_triton",
    "triton",
    ("rounded_factor", "value", "a factor is right to three digits", ("magnitude", "sizes")),
    ("short_blocks", "outputs written", "the blocks lie one element too close", _ANY),
    ("last_element", "outputs written", "the last element is not written", _ANY),
    ("stores_past", "writes outside", "an element behind the last one is written"),
    ("loads_unmasked", "reads outside", "a load without its mask"),
    ("lost_infinity", "special values", "a maximum with a finite number loses -inf and NaN"),
    ("row_tail", "value", "the mask is that of the tensor's end: the next row is added", ("sizes", "magnitude")),
    ("masked_maximum", "sizes", "masked elements are 0 in a maximum", (*VALUES, "empty", "gradient")),
    ("last_block", "sizes", "a block that is exactly full at the row's end is left out"),
    ("transposed", "strides", "the stride of rows is taken for the number of columns"),
    ("half_sums", "magnitude", "squares are added in half precision", ("sizes",), ("float16",)),
    ("forgotten_bias", "arguments", "without the optional bias the factor is forgotten"),
    ("empty_rows", "empty", "the mean of no elements is 0"),
    ("scales_input", "inputs unchanged", "the input is scaled in place", ("determinism", "vmap")),
    ("scaled_rows", "gradient", "one of two gradients is the last block's part", ("second gradient", "func.grad")),
    ("last_part_wins", "sizes", "blocks store their parts of a sum at one address", ("value", "determinism")),
    ("narrow_offset", "large", "an offset is kept in 32 bits"),
    ("counted", "determinism", "blocks add to one number without atomics", VALUES),
    ("many_rows", "sizes", "rows along y of the grid, which has 65,535 at most"),
)

# What Triton's interpreter cannot show.
NEED_A_GPU = frozenset({"counted", "many_rows"})
