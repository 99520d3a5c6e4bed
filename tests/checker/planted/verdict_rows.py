"""The planted defects whose failure tempts a verdict into a wrong name, or two; they fail at first in another way."""

from __future__ import annotations

from row import Planted, rows

__all__ = ["ROWS"]

F32 = ("float32",)

ROWS: tuple[Planted, ...] = (
    *rows(
        "verdict",
        "verdict",
        ("median", "determinism", "scratch memory is kept, and its padding holds what a longer row left"),
        (
            "weighted_mean",
            "state",
            "the sum of the weights is that of the first weights of their size",
            (),
            F32,
            ("value",),
        ),
        ("ring", "determinism", "every sixteenth call leaves the last element out"),
        ("prefix", "threads", "a running sum begins anew with each thread's chunk"),
        ("normalize", "value", "what is saved for the backward is not what the backward takes it for"),
        ("lanes", "sizes", "wrong beyond 32 elements; a smaller size crashes"),
        ("mean_square", "magnitude", "a sum of squares is kept in float16 and overflows", (), ("float16",)),
        ("exponent", "value", "a loop does not end for zero"),
        ("root", "special values", "a loop does not end for NaN"),
        ("last_sum", "empty", "a loop over no elements does not stop at the first"),
    ),
    *rows(
        "verdict_python",
        "verdict",
        ("py_branches", "compile", "the backward looks at a number, which cannot be traced"),
        ("py_fixed", "compile", "the fake kernel turns sizes into numbers"),
        ("py_half", "gradient", "one input gets no gradient"),
        ("py_scaling", "inputs unchanged", "works in place where its input is contiguous"),
        (
            "py_remembers",
            "state",
            "the squares of the first tensor of a shape serve for later ones",
            (),
            F32,
            ("value",),
        ),
        ("py_large", "sizes", "a thousand elements and more are off by a thousandth"),
    ),
)
