"""The planted defects, by class. A class is a file of definitions, its kernels, and rows here or in `<file>_rows.py`.

The operators of each row are declared in the file that it names, once with the defect and once without: see `load.py`.
"""

from __future__ import annotations

import importlib

from row import Planted, rows

__all__ = ["TABLE", "Planted"]

_KERNELS = rows(
    "kernels",
    "kernels",
    ("softmax", "magnitude", "softmax without subtracting the maximum"),
    ("softplus", "magnitude", "log(1 + exp(x)) overflows"),
    ("naive_sigmoid", "magnitude", "exp(x) / (1 + exp(x)) is inf / inf"),
    ("blend", "value", "computed in float32 in a float64 operator", (), ("float64",)),
    ("fast_tanh", "value", "a rational approximation, right to two digits"),
    ("place_of_largest", "value", "of equal numbers it takes the last one"),
    ("variance", "magnitude", "E[x^2] - E[x]^2, which cancels"),
    ("mean_rows", "magnitude", "the sum is kept in float16 and overflows", (), ("float16",)),
    ("sum_rows", "sizes", "the sum is kept in bfloat16", (), ("bfloat16",)),
    ("largest", "special values", "a maximum that swallows NaN"),
    ("relu", "special values", "-inf * 0 is NaN"),
    ("triple", "special values", "integers that overflow do not wrap around", (), ("int64",)),
    ("halve_down", "value", "negative integers are rounded towards zero", ("special values",), ("int32",)),
    ("tail", "sizes", "sizes that are not divisible by 8 have a wrong rest"),
    ("turn", "sizes", "a square matrix is transposed"),
    ("long_rows", "sizes", "rows of more than 1024 lose an element"),
    ("up_to_32", "sizes", "more than 32 elements end the process"),
    ("one_column", "sizes", "one column alone is taken for a scalar"),
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
    ("stale", "outputs written", "the last element of an odd size is not written"),
    ("write_after", "writes outside", "writes one element behind the output"),
    ("write_before", "writes outside", "writes one element before the output"),
    ("neighbour", "reads outside", "the last element's neighbour is read"),
    ("scribble", "inputs unchanged", "writes to its input"),
    ("leak", "memory growth", "scratch memory is never freed"),
    ("restless", "determinism", "every third call sums in another order"),
    ("reverse", "determinism", "a buffer is kept, and is too large after a larger call"),
    ("race", "threads", "threads count into one variable without a lock"),
    ("chunked", "threads", "the order of a sum depends on the number of threads"),
    ("cube", "gradient", "the gradient has a wrong factor"),
    ("multiply", "gradient", "the gradients of two inputs are exchanged"),
    ("half_gradient", "gradient", "one column has no gradient"),
    ("slope", "gradient", "takes the gradient that arrives for contiguous"),
    ("scale_rows", "gradient", "the gradient's sum is kept in bfloat16", (), ("bfloat16",)),
    ("lookup", "bad arguments", "indices are not compared with the size of the table"),
    ("far_apart", "large", "an offset is kept in 32 bits"),
)

_PYTHON = rows(
    "python_ops",
    "registration",
    ("py_mutates", "inputs unchanged", "writes to an input that the schema calls read-only"),
    ("py_buffer", "aliasing", "every call returns the same memory"),
    ("py_hoards", "memory growth", "keeps a tensor of each call"),
    ("py_moody", "determinism", "every call rounds in another way"),
    ("py_fake_dtype", "fake", "the fake kernel has another element type"),
    ("py_fake_shape", "fake", "the fake kernel has another shape"),
    ("py_fake_stride", "fake", "the fake kernel has other strides"),
    ("py_fake_device", "fake", "the fake kernel is on another device"),
    ("py_fake_missing", "fake", "there is no fake kernel"),
    ("py_factor", "gradient", "the gradient has a wrong factor"),
    ("py_second", "second gradient", "the backward cuts the graph: the second gradient is zero"),
    ("py_no_vmap", "vmap", "there is no rule for vmap"),
    ("py_wrong_vmap", "vmap", "the rule for vmap puts the batch at the wrong place"),
    ("py_jvp", "jvp", "forward-mode gradients are zero"),
)

_UNCHECKED = rows(
    "unchecked",
    "native",
    ("dot", "bad arguments", "sizes, types and ranks are not checked"),
    ("alias", "aliasing", "returns its input"),
    ("offset", "strides", "ignores the storage offset"),
    ("keep", "memory growth", "keeps a tensor of each call"),
)

# Modules of this folder, each with the rows of the classes it is about.
_CLASSES = (
    "digits_rows",
    "mixed_layouts_rows",
    "option_paths_rows",
    "options_rows",
    "paths_rows",
    "promises_rows",
    "races_rows",
    "special_rows_rows",
    "state_rows",
    "ties_rows",
    "tiles_rows",
    "uncalled_rows",
    "verdict_rows",
)

TABLE: tuple[Planted, ...] = (
    *_KERNELS,
    *_PYTHON,
    *_UNCHECKED,
    *(row for name in _CLASSES for row in importlib.import_module(name).ROWS),
)
