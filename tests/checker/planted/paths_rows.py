"""Defects of one path: a rest, a layout, a list, an exception, the 500th call, a forked process."""

from __future__ import annotations

from row import VALUES, Planted, rows

__all__ = ["ROWS"]

# What writes or reads elsewhere may do it in any call, and what is left in memory or in a thread may show anywhere.
_ANYWHERE = (*VALUES, "gradient", "determinism", "threads", "outputs written", "aliasing", "state")
_F64 = ("float64",)

ROWS: tuple[Planted, ...] = rows(
    "paths",
    "paths",
    ("rest_of_two", "sizes", "after vectors of four, a rest of two loses its last element"),
    ("full_tiles", "sizes", "the last element is wrong where tiles of 32 fit in both directions"),
    ("rows_of_2048", "sizes", "rows of 2048 are summed up to 2016"),
    ("a_million", "sizes", "elements beyond 2^20 are left as they are"),
    ("positives", "sizes", "a count is kept in 16 bits without a sign"),
    ("squares", "gradient", "after vectors of eight, a rest of seven loses its last element"),
    ("single_factor", "arguments", "a float is kept in single precision", (), _F64),
    ("short_number", "bad arguments", "an int is kept in 32 bits", (), ()),
    ("four_of_list", "arguments", "of a list the first four count"),
    ("sizes_of_first", "arguments", "all tensors of a list are taken to be as large as the first"),
    ("strides_of_first", "strides", "all tensors of a list are taken to lie as the first does"),
    ("shared_heads", "strides", "a stride of 0 in the middle is taken for something else"),
    ("one_row", "strides", "one row alone with a stride of 0 is taken for one number"),
    ("unsigned_offset", "large", "an offset is kept in 32 bits without a sign"),
    ("leaks_in_large", "memory growth", "scratch memory of large calls is never freed"),
    ("leaks_in_strided", "memory growth", "scratch memory of calls with strides is never freed"),
    ("leaks_where_it_raises", "memory growth", "scratch memory of calls that raise is never freed"),
    ("leaves_files_open", "memory growth", "a file is opened in each call"),
    ("leaves_pages_mapped", "memory growth", "a page is mapped in each call"),
    ("ignores_interrupts", "state", "interrupts are ignored from then on"),
    ("other_locale", "state", "the locale is another one from then on"),
    ("other_environment", "state", "a variable of the environment is set"),
    ("flushes_in_strided", "state", "denormals are flushed after a call with strides", _ANYWHERE),
    ("rounds_where_it_raises", "state", "the processor rounds down after a call that raises", _ANYWHERE),
    ("reads_before", "reads outside", "what lies before the input is read and not used"),
    ("writes_far", "writes outside", "writes 6000 bytes behind the output", (*_ANYWHERE, "large")),
    ("on_the_stack", "outputs written", "a large array on the stack is not cleared", _ANYWHERE),
    ("neither_true_nor_false", "value", "a truth value is 2", ("special values", "sizes", "strides")),
    ("every_500th", "determinism", "every 500th call is wrong", _ANYWHERE),
    ("eight_places", "threads", "an array has places for eight threads"),
    ("with_a_helper", "threads", "a thread of its own is missing in forked processes", ("bad arguments",)),
    ("rectified_more", "gradient", "a gradient that is NaN is taken for 0"),
    ("kept_slopes", "state", "what the backward needs is in a static variable", ("threads", "gradient")),
    ("reads_on", "reads outside", "the backward reads an element too many and does not use it"),
)
