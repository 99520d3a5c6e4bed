"""Which defects are planted? One row each: what it is, which property must name it, and which others may be true as well.

Every row has an operator with the defect and the same operator without it. `kernels`, `python_ops` and `unchecked` are
the files they are declared in; another defect is another row and a few lines in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from load import module

from opsmith.runtime.operator import Operator
from opsmith.subject.subject import Subject, subject_of

__all__ = ["TABLE", "Planted"]

# What follows from a fake kernel that is wrong or missing.
_TRACING = ("opcheck", "compile", "export")
# What a kernel does wrong whose results depend on more than its arguments may show anywhere.
_VALUES = ("value", "magnitude", "special values", "sizes", "strides", "arguments")


@dataclass(frozen=True)
class Planted:
    """A defect. `dtypes` are those that it is looked for in; `also` are properties that may fail with the named one."""

    name: str
    file: str
    defect: str
    named: str
    also: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)

    def subject(self, *, planted: bool, seed: int = 0) -> Subject:
        """Return the operator with the defect or without it, as it is checked."""
        found = module(self.file, planted)
        if isinstance(made := getattr(found, self.name, None), Operator):
            return subject_of(made, seed=seed)
        op, reference = found.OPERATORS[self.name]
        return subject_of(op, reference=reference, seed=seed)


def _kernel(
    name: str, named: str, defect: str, also: tuple[str, ...] = (), dtypes: tuple[str, ...] = ("float32",)
) -> Planted:
    return Planted(name, "kernels", defect, named, also, dtypes)


def _python(name: str, named: str, defect: str, also: tuple[str, ...] = ()) -> Planted:
    return Planted(name, "python_ops", defect, named, also)


def _unchecked(name: str, named: str, defect: str, also: tuple[str, ...] = ()) -> Planted:
    return Planted(name, "unchecked", defect, named, also)


TABLE: tuple[Planted, ...] = (
    # exp of a large number is inf, and inf / inf is NaN; with an inf in a row, its other elements are 0 instead of NaN.
    _kernel("softmax", "magnitude", "softmax without subtracting the maximum", ("special values",)),
    _kernel("softplus", "magnitude", "log(1 + exp(x)) overflows"),
    _kernel("naive_sigmoid", "magnitude", "exp(x) / (1 + exp(x)) is inf / inf"),
    _kernel("blend", "value", "computed in float32 in a float64 operator", (), ("float64",)),
    _kernel("fast_tanh", "value", "a rational approximation, right to two digits", ("sizes", "magnitude")),
    _kernel("place_of_largest", "value", "of equal numbers it takes the last one"),
    _kernel("variance", "magnitude", "E[x^2] - E[x]^2, which cancels", ("sizes",)),
    _kernel("mean_rows", "magnitude", "the sum is kept in float16 and overflows", ("sizes",), ("float16",)),
    _kernel("sum_rows", "sizes", "the sum is kept in bfloat16", ("magnitude", "value", "strides"), ("bfloat16",)),
    _kernel("largest", "special values", "a maximum that swallows NaN"),
    _kernel("relu", "special values", "-inf * 0 is NaN"),
    _kernel("triple", "special values", "integers that overflow do not wrap around", (), ("int64",)),
    _kernel("halve_down", "value", "negative integers are rounded towards zero", ("special values",), ("int32",)),
    _kernel("tail", "sizes", "sizes that are not divisible by 8 have a wrong rest"),
    _kernel("turn", "sizes", "a square matrix is transposed"),
    _kernel("long_rows", "sizes", "rows of more than 1024 lose an element"),
    _kernel("up_to_32", "sizes", "more than 32 elements end the process"),
    _kernel("one_column", "sizes", "one column alone is taken for a scalar", ("empty",)),
    _kernel("around", "empty", "a division by the size, which is zero"),
    _kernel("product", "empty", "the product of nothing is 0"),
    _kernel("dense", "strides", "takes its input for contiguous"),
    _kernel("rows_apart", "strides", "ignores the stride of rows"),
    _kernel("expanded", "strides", "takes a stride of 0 for something else"),
    _kernel("image", "strides", "channels_last images have their channels reversed"),
    _kernel("flagged", "arguments", "a flag is ignored"),
    _kernel("window", "arguments", "windows of more than three elements are too short"),
    _kernel("biased", "arguments", "an optional tensor is ignored"),
    _kernel("unbiased", "arguments", "an absent optional tensor counts as ones"),
    _kernel("stacked", "arguments", "a list of one tensor gives another result"),
    _kernel("stale", "outputs written", "the last element of an odd size is not written", (*_VALUES, "determinism")),
    _kernel("write_after", "writes outside", "writes one element behind the output"),
    _kernel("write_before", "writes outside", "writes one element before the output"),
    _kernel("neighbour", "reads outside", "the last element's neighbour is read", (*_VALUES, "determinism")),
    _kernel("scribble", "inputs unchanged", "writes to its input", ("determinism", "vmap")),
    _kernel("leak", "memory growth", "scratch memory is never freed"),
    _kernel("restless", "determinism", "every third call sums in another order", ("threads",)),
    _kernel("reverse", "determinism", "a buffer is kept, and is too large after a larger call"),
    _kernel("race", "threads", "threads count into one variable without a lock", (*_VALUES, "determinism")),
    _kernel("chunked", "threads", "the order of a sum depends on the number of threads", ("determinism",)),
    _kernel("cube", "gradient", "the gradient has a wrong factor", ("second gradient", "func.grad")),
    _kernel("multiply", "gradient", "the gradients of two inputs are exchanged", ("second gradient", "func.grad")),
    _kernel("half_gradient", "gradient", "one column has no gradient", ("second gradient", "func.grad")),
    _kernel("slope", "gradient", "takes the gradient that arrives for contiguous", ("func.grad",)),
    _kernel("scale_rows", "gradient", "the gradient's sum is kept in bfloat16", (), ("bfloat16",)),
    _kernel("lookup", "bad arguments", "indices are not compared with the size of the table"),
    _kernel("far_apart", "large", "an offset is kept in 32 bits"),
    _python(
        "py_mutates",
        "inputs unchanged",
        "writes to an input that the schema calls read-only",
        ("strides", "gradient", *_TRACING),
    ),
    _python(
        "py_buffer",
        "aliasing",
        "every call returns the same memory",
        ("determinism", "gradient", "fake", "vmap", *_TRACING),
    ),
    _python("py_hoards", "memory growth", "keeps a tensor of each call"),
    _python("py_moody", "determinism", "every call rounds in another way", ("threads",)),
    _python("py_fake_dtype", "fake", "the fake kernel has another element type", _TRACING),
    _python("py_fake_shape", "fake", "the fake kernel has another shape", _TRACING),
    _python("py_fake_stride", "fake", "the fake kernel has other strides", _TRACING),
    _python("py_fake_device", "fake", "the fake kernel is on another device", _TRACING),
    _python("py_fake_missing", "fake", "there is no fake kernel", _TRACING),
    _python("py_factor", "gradient", "the gradient has a wrong factor", ("second gradient", "func.grad")),
    _python("py_second", "second gradient", "the backward cuts the graph: the second gradient is zero", ("func.grad",)),
    _python("py_no_vmap", "vmap", "there is no rule for vmap", ("func.grad",)),
    _python("py_wrong_vmap", "vmap", "the rule for vmap puts the batch at the wrong place", ("func.grad",)),
    _python("py_jvp", "jvp", "forward-mode gradients are zero"),
    _unchecked("dot", "bad arguments", "sizes, types and ranks are not checked"),
    _unchecked("alias", "aliasing", "returns its input", _TRACING),
    _unchecked("offset", "strides", "ignores the storage offset"),
    _unchecked("keep", "memory growth", "keeps a tensor of each call"),
)
