"""Runs a function of PyTorch's in stochastic arithmetic: each intermediate result is rounded up or down at random.

This measures what the roundings inside of a function do to its results, also where float64 itself has no digits left
(J. Vignes, A stochastic arithmetic for reliable scientific computation, 1993). A result that the element type holds
exactly has no rounding and stays as it is: a tie of exact numbers is decided as ever. That tanh(20) is 1 is a rounding, and
an exact quotient is rounded too, but by a power of two and an integer of integers: the reciprocal is as good.

A function may compute constants of its own in float32, as the angles of rotary embeddings are. Those stay in that type,
whatever its arguments have, and are rounded in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.copies import copied
from opsmith.subject.dispatch import DispatchMode

__all__ = ["DOWN", "UP", "Run", "rounded_at_random"]

# In place of a seed: every result is rounded in one direction. What hangs on one rounding is seen in one of them.
UP, DOWN = -1, -2

# Functions whose results are never exact but at 0.
_TRANSCENDENTAL = frozenset(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
        *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "pow", "rsqrt", "_softmax", "_log_softmax"),
        *("digamma", "erf", "erfc", "erfinv", "lgamma"),
        *("gelu", "log_sigmoid_forward", "mish", "sigmoid", "silu", "softplus"),
    )
)
# Exponents whose powers are products, as square() has them; those of exact numbers can be exact.
_PRODUCTS = (2, 3)
_SUMS = frozenset(("add", "sub", "rsub"))
# Functions that make no number of their own.
_MOVES = frozenset(
    (
        *("cat", "stack", "index", "index_select", "gather", "take", "where", "masked_fill", "index_put", "scatter"),
        *("clone", "copy", "copy_", "_to_copy", "repeat", "repeat_interleave", "flip", "roll", "constant_pad_nd"),
        *("maximum", "minimum", "max", "min", "amax", "amin", "sort", "topk", "clamp", "abs", "neg", "relu", "sign"),
    )
)
# A function may also compute in half precision, to which it converts its arguments.
_HALF, _MOVES_OF_HALF = (torch.float16, torch.bfloat16), _MOVES - {"_to_copy"}
# A float32 with so many zeros at its end has most likely been computed without a rounding.
_ZEROS_OF_SHORT = 0xFFF

Run = Callable[[Mapping[str, Any]], list[Tensor]]


def rounded_at_random(run: Run, wide: Mapping[str, Any], dtype: torch.dtype, seed: int) -> list[Tensor]:
    """Return the results of a call in float64 whose intermediate results are rounded to a type, up or down."""
    with _Rounding(dtype, seed):
        return [result.detach() for result in run(copied(wide))]


class _Rounding(DispatchMode):
    """Rounds what each operator of PyTorch's returns, in autograd's backward as well."""

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        super().__init__()
        self._dtype = dtype
        self._seed = seed
        self._random = torch.Generator().manual_seed(max(seed, 0))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        results = result if isinstance(result, tuple | list) else (result,)
        for one, returned in zip(results, func._schema.returns, strict=False):
            # A view of what was rounded before is not a result of an operation.
            is_view = returned.alias_info is not None and not returned.alias_info.is_write
            if isinstance(one, Tensor) and one.numel() > 0 and not is_view:
                name = func.overloadpacket.__name__
                if one.dtype is torch.float64:
                    # It has no wider type: what needs few digits has most likely been computed without a rounding.
                    few = torch.float32 if self._dtype is torch.float64 else self._dtype
                    inexact = (one.to(few).to(torch.float64) != one) | _is_absorbed(name, one, args)
                    self._round(one, inexact, self._dtype, _terms_of(name, one, args))
                elif one.dtype is torch.float32 and name not in _MOVES and any(map(_is_tensor, args)):
                    inexact = (one.detach().view(torch.int32) & _ZEROS_OF_SHORT) != 0
                    inexact |= name == "div" and _has_rounded_reciprocal(args[0], args[1], one)
                    self._round(one, inexact, torch.float32, _terms_of(name, one, args))
                elif one.dtype in _HALF and name not in _MOVES_OF_HALF and any(map(_is_tensor, args)):
                    self._round(one, one != 0, one.dtype, 1)  # which of its numbers are exact has few bits to show
        return result

    def _round(self, exact: Tensor, inexact: Tensor, dtype: torch.dtype, terms: int) -> None:
        """Move what is not exact by a rounding to a type."""
        if not bool(inexact.any()):
            return
        if self._seed in (UP, DOWN):
            signs = (1.0 if self._seed == UP else -1.0) * exact.sign().to(torch.float64)
        else:
            signs = torch.randint(0, 2, exact.shape, generator=self._random).to(exact.device, torch.float64) * 2 - 1
        # A sum of n terms, which a kernel may add in any order, has some sqrt(n) roundings.
        eps = torch.finfo(dtype).eps * math.sqrt(terms)
        # More than a half, so that a short number moves too.
        moved = exact * (1 + signs * (eps if dtype is torch.float64 else 0.75 * eps))
        exact.copy_(torch.where(inexact, moved.to(dtype).to(exact.dtype), exact))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_is_tensor, value)))


def _terms_of(name: str, result: Tensor, args: Any) -> int:
    """Return how many terms each element of a result is the sum of, for the functions in which that matters most."""
    if name in ("sum", "mean") and isinstance(args[0], Tensor):
        return max(1, int(args[0].numel()) // result.numel())
    if name in ("mm", "bmm", "mv", "dot"):
        return max(1, int(args[0].shape[-1]))
    return 1


def _is_absorbed(name: str, result: Tensor, args: Any) -> Tensor | bool:
    """Return where a result is as short as an exact one, and is none: an addend was lost, or a function has saturated."""
    if name == "pow" and not isinstance(args[1], Tensor) and args[1] in _PRODUCTS:
        return False
    if name == "div":
        return _has_rounded_reciprocal(args[0], args[1], result)
    if name in _TRANSCENDENTAL and isinstance(args[0], Tensor):
        return args[0] != 0 if args[0].shape == result.shape else True
    if name in _SUMS:
        size, (one, other) = result.abs(), (abs(args[0]), abs(args[1]))
        # Smaller, because 1 - 2 loses nothing.
        lost: Tensor = (size == one) & (other > 0) & (other < one) | (size == other) & (one > 0) & (one < other)
        return lost
    return False


def _has_rounded_reciprocal(one: Tensor, divisor: Tensor | float, quotient: Tensor) -> Tensor:
    """Return where a product with the reciprocal may be another number; an integer of integers is that of an index."""
    divisors = torch.as_tensor(divisor, dtype=torch.float64, device=one.device)
    whole = (one == one.round()) & (divisors == divisors.round()) & (quotient == quotient.round())
    return (torch.frexp(divisors).mantissa.abs() != 0.5) & (quotient != 0) & ~whole
