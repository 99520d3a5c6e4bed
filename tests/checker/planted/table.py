"""The planted defects, by class. A class is a file of definitions, its kernels, and rows here or in `<file>_rows.py`.

The operators of each row are declared in the file that it names, once with the defect and once without: see `load.py`.
"""

from __future__ import annotations

import importlib

from row import TRACING, VALUES, Planted, rows

__all__ = ["TABLE", "Planted"]

_KERNELS = rows(
    "kernels",
    "kernels",
    # exp of a large number is inf, and inf / inf is NaN; with an inf in a row, its other elements are 0 instead of NaN.
    ("softmax", "magnitude", "softmax without subtracting the maximum", ("special values",)),
    ("softplus", "magnitude", "log(1 + exp(x)) overflows"),
    ("naive_sigmoid", "magnitude", "exp(x) / (1 + exp(x)) is inf / inf"),
    ("blend", "value", "computed in float32 in a float64 operator", (), ("float64",)),
    ("fast_tanh", "value", "a rational approximation, right to two digits", ("sizes", "magnitude")),
    ("place_of_largest", "value", "of equal numbers it takes the last one"),
    ("variance", "magnitude", "E[x^2] - E[x]^2, which cancels", ("sizes",)),
    ("mean_rows", "magnitude", "the sum is kept in float16 and overflows", ("sizes",), ("float16",)),
    ("sum_rows", "sizes", "the sum is kept in bfloat16", ("magnitude", "value", "strides"), ("bfloat16",)),
    ("largest", "special values", "a maximum that swallows NaN"),
    ("relu", "special values", "-inf * 0 is NaN"),
    ("triple", "special values", "integers that overflow do not wrap around", (), ("int64",)),
    ("halve_down", "value", "negative integers are rounded towards zero", ("special values",), ("int32",)),
    ("tail", "sizes", "sizes that are not divisible by 8 have a wrong rest"),
    ("turn", "sizes", "a square matrix is transposed"),
    ("long_rows", "sizes", "rows of more than 1024 lose an element"),
    ("up_to_32", "sizes", "more than 32 elements end the process"),
    ("one_column", "sizes", "one column alone is taken for a scalar", ("empty",)),
    ("around", "empty", "a division by the size, which is zero"),
    ("product", "empty", "the product of nothing is 0"),
    ("dense", "strides", "takes its input for contiguous"),
    ("rows_apart", "strides", "ignores the stride of rows"),
    ("expanded", "strides", "takes a stride of 0 for something else"),
    ("image", "strides", "channels_last images have their channels reversed"),
    ("flagged", "arguments", "a flag is ignored"),
    ("window", "arguments", "windows of more than three elements are too short"),
    ("biased", "arguments", "an optional tensor is ignored"),
    ("unbiased", "arguments", "an absent optional tensor counts as ones"),
    ("stacked", "arguments", "a list of one tensor gives another result"),
    ("stale", "outputs written", "the last element of an odd size is not written", (*VALUES, "determinism")),
    ("write_after", "writes outside", "writes one element behind the output"),
    ("write_before", "writes outside", "writes one element before the output"),
    ("neighbour", "reads outside", "the last element's neighbour is read", (*VALUES, "determinism")),
    ("scribble", "inputs unchanged", "writes to its input", ("determinism", "vmap")),
    ("leak", "memory growth", "scratch memory is never freed"),
    ("restless", "determinism", "every third call sums in another order", ("threads",)),
    ("reverse", "determinism", "a buffer is kept, and is too large after a larger call"),
    ("race", "threads", "threads count into one variable without a lock", (*VALUES, "determinism")),
    ("chunked", "threads", "the order of a sum depends on the number of threads", ("determinism",)),
    ("cube", "gradient", "the gradient has a wrong factor", ("second gradient", "func.grad")),
    ("multiply", "gradient", "the gradients of two inputs are exchanged", ("second gradient", "func.grad")),
    ("half_gradient", "gradient", "one column has no gradient", ("second gradient", "func.grad")),
    ("slope", "gradient", "takes the gradient that arrives for contiguous", ("func.grad",)),
    ("scale_rows", "gradient", "the gradient's sum is kept in bfloat16", (), ("bfloat16",)),
    ("lookup", "bad arguments", "indices are not compared with the size of the table"),
    ("far_apart", "large", "an offset is kept in 32 bits"),
)

_PYTHON = rows(
    "python_ops",
    "registration",
    (
        "py_mutates",
        "inputs unchanged",
        "writes to an input that the schema calls read-only",
        ("strides", "gradient", *TRACING),
    ),
    (
        "py_buffer",
        "aliasing",
        "every call returns the same memory",
        ("determinism", "gradient", "fake", "vmap", *TRACING),
    ),
    ("py_hoards", "memory growth", "keeps a tensor of each call"),
    ("py_moody", "determinism", "every call rounds in another way", ("threads",)),
    ("py_fake_dtype", "fake", "the fake kernel has another element type", TRACING),
    ("py_fake_shape", "fake", "the fake kernel has another shape", TRACING),
    ("py_fake_stride", "fake", "the fake kernel has other strides", TRACING),
    ("py_fake_device", "fake", "the fake kernel is on another device", TRACING),
    ("py_fake_missing", "fake", "there is no fake kernel", TRACING),
    ("py_factor", "gradient", "the gradient has a wrong factor", ("second gradient", "func.grad")),
    ("py_second", "second gradient", "the backward cuts the graph: the second gradient is zero", ("func.grad",)),
    ("py_no_vmap", "vmap", "there is no rule for vmap", ("func.grad",)),
    ("py_wrong_vmap", "vmap", "the rule for vmap puts the batch at the wrong place", ("func.grad",)),
    ("py_jvp", "jvp", "forward-mode gradients are zero"),
)

_UNCHECKED = rows(
    "unchecked",
    "native",
    ("dot", "bad arguments", "sizes, types and ranks are not checked"),
    ("alias", "aliasing", "returns its input", TRACING),
    ("offset", "strides", "ignores the storage offset"),
    ("keep", "memory growth", "keeps a tensor of each call"),
)

# Modules of this folder, each with the rows of the classes it is about.
_CLASSES = (
    "digits_rows",
    "mixed_layouts_rows",
    "options_rows",
    "races_rows",
    "special_rows_rows",
    "state_rows",
    "ties_rows",
    "tiles_rows",
    "uncalled_rows",
)

TABLE: tuple[Planted, ...] = (
    *_KERNELS,
    *_PYTHON,
    *_UNCHECKED,
    *(row for name in _CLASSES for row in importlib.import_module(name).ROWS),
)
