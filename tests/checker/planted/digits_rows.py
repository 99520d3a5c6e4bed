"""Digits lost where a result is small: pointwise and row-wise operators are judged element by element."""

from __future__ import annotations

from row import rows

__all__ = ["ROWS"]

_MORE = ("value", "sizes", "strides", "second gradient", "func.grad")
_BOTH = ("float32", "float64")

ROWS = rows(
    "digits",
    "digits",
    ("log_one_plus", "magnitude", "log(1 + x) instead of log1p", _MORE, _BOTH),
    ("exp_minus_one", "magnitude", "exp(x) - 1 instead of expm1", _MORE, _BOTH),
    ("clipped_sigmoid", "magnitude", "0 below -16", _MORE, _BOTH),
    ("flat_gelu", "magnitude", "0 below -4", _MORE, _BOTH),
    ("quotient_tanh", "magnitude", "(exp(2x) - 1) / (exp(2x) + 1), which cancels near 0", _MORE, _BOTH),
    ("cut_softplus", "magnitude", "0 below -15, and log(1 + exp(x)) above", _MORE, _BOTH),
    ("silu", "magnitude", "the exponent is limited to 20", _MORE, _BOTH),
    ("log_sigmoid", "magnitude", "log(sigmoid(x)), which cancels where the sigmoid is nearly 1", _MORE, _BOTH),
    ("inverse_sinh", "magnitude", "log(x + sqrt(x^2 + 1)), which cancels near 0", _MORE, _BOTH),
    ("elu", "magnitude", "exp(x) - 1 below 0", _MORE, _BOTH),
    (
        "narrow_exp",
        "value",
        "the small exponentials of a float64 operator are float32's",
        ("magnitude", *_MORE),
        ("float64",),
    ),
    ("pruned_softmax", "magnitude", "probabilities below 1e-7 are 0", _MORE, _BOTH),
    ("log_shares", "magnitude", "log(1 + x / sum(x)), which loses small shares", _MORE, _BOTH),
    ("centered", "magnitude", "exp(x) - 1, scaled by rows", _MORE, _BOTH),
    ("softplus_slope", "gradient", "1 - 1 / (1 + exp(x)), which is 0 in the tail", _MORE, _BOTH),
    ("arctan_slope", "gradient", "cos(y)^2 as the slope of the arc tangent, which cancels near pi / 2", _MORE, _BOTH),
)
