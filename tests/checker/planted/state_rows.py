"""Defects of state: what is kept between calls, changed and not put back, or shared with another thread's call."""

from __future__ import annotations

from row import TRACING, VALUES, Planted, rows

__all__ = ["ROWS"]

# A result that is kept may come up anywhere: memory is given out again with other numbers in it.
_KEPT = (*VALUES, "empty", "determinism", "threads", "outputs written", "reads outside")
_MODES = (*_KEPT, "gradient", "second gradient", "fake", "vmap", "func.grad", "jvp", "bad arguments", "memory growth")

ROWS: tuple[Planted, ...] = rows(
    "state",
    "state",
    ("by_pointer", "state", "a result is kept by the address of its input", _KEPT),
    ("by_prefix", "state", "a result is kept by the address and the first four numbers", _KEPT),
    ("by_sample", "state", "a result is kept by the address and three of the numbers", _KEPT),
    ("packed_weight", "state", "a weight is packed once, and is taken not to change", _KEPT),
    ("by_version", "state", "a result is kept by the address and the version counter", (*_KEPT, *TRACING)),
    ("by_identity", "state", "a result is kept by the identity of its input", (*_MODES, *TRACING)),
    ("flushes", "state", "denormals are flushed from then on", _MODES),
    ("flushes_workers", "state", "denormals are flushed in PyTorch's threads from then on", _MODES),
    ("rounds", "state", "the processor rounds down from then on", _MODES),
    ("pins", "state", "the caller's thread stays on one core", _MODES),
    ("one_thread", "state", "PyTorch has one thread from then on", (*_MODES, *TRACING)),
    ("default_dtype", "state", "the default dtype is another one from then on", (*_MODES, *TRACING)),
    ("reseeds", "state", "the generator of random numbers is seeded", (*_MODES, *TRACING)),
    ("deterministic", "state", "deterministic algorithms are asked for from then on", (*_MODES, *TRACING)),
    ("grad_off", "state", "gradients are turned off, or on", (*_MODES, *TRACING)),
    ("same_twice", "aliasing", "two arguments that are one tensor are not added"),
    ("gram", "aliasing", "the products of a tensor with itself lack those of its rows with themselves"),
    ("restores", "inputs unchanged", "works in its input and puts it back", ("threads",)),
    ("sentinel", "inputs unchanged", "puts a mark at the end of its input, and takes it away", ("threads",)),
    ("static_scratch", "threads", "scratch memory that all calls share"),
    ("static_table", "threads", "a table that a call with another argument makes anew"),
    ("static_sum", "threads", "a sum in a static variable"),
)
