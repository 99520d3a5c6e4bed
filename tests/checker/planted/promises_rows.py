"""Defects of backwards that nobody sees in a first gradient, and results that depend on the caller's modes."""

from __future__ import annotations

from row import Planted, rows

__all__ = ["ROWS"]

_TRACED = ("opcheck", "compile", "export")

ROWS: tuple[Planted, ...] = rows(
    "promises",
    "promises",
    ("py_attributes", "gradient", "inputs are kept as attributes, where nothing notices that they change", _TRACED),
    ("py_latest", "state", "the backward takes the inputs of the latest call", ("threads", "gradient", *_TRACED)),
    ("py_doubles", "gradient", "a second backward through one graph is doubled", ("func.grad", *_TRACED)),
    ("py_subset", "gradient", "wrong where the first and the last input alone need a gradient"),
    ("py_version", "state", "asks for a version, which tensors do not have in inference mode", _TRACED),
    ("py_default", "state", "a constant has the default dtype"),
    ("py_silences", "state", "all warnings are ignored from then on", _TRACED),
    ("py_seeds", "state", "Python's generator of random numbers is seeded", _TRACED),
    ("py_rough", "state", "another formula where a gradient is recorded", ("gradient", "second gradient", "func.grad")),
)
