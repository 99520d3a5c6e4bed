"""Writes the numbers of a tensor's recipe as constructor calls of PyTorch's, for tensors too large for a literal.

Each text draws from PyTorch's own generator after `torch.manual_seed` what `opsmith.subject.values` draws from one of its
own, in the same order, and so makes the same bits. Whoever uses a text makes sure of that: see `literals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

__all__ = ["Code", "constructor_code", "is_call"]


@dataclass(frozen=True)
class Code:
    """An expression, and the statements that have to come before it."""

    expression: str
    before: tuple[str, ...] = ()


_SIGNS = "(torch.randint(0, 2, {shape}).double() * 2 - 1)"
_UNIFORM = "torch.rand({shape}, dtype=torch.float64)"
_NORMAL = "torch.randn({shape}, dtype=torch.float64)"


def constructor_code(shape: tuple[int, ...], dtype: torch.dtype, values: str, seed: int) -> Code | None:
    """Return code for a kind of values, contiguous and on the CPU, or None for a kind that is not known here.

    The statements may set `v` and `w`.
    """
    make: Callable[[torch.dtype], Code] | None
    if dtype is torch.bool:
        code: Code | None = Code("torch.rand({shape}) < 0.5")
    elif dtype.is_floating_point:
        make = _FLOATS.get(values)
        code = make(dtype) if make is not None else None
    else:
        code = _INTEGERS.get(values, _small)(dtype)
    if code is None:
        return None
    texts = [text.replace("{shape}", _shape(shape)) for text in (*code.before, code.expression)]
    wanted = torch.float64 if dtype.is_floating_point else torch.int64
    cast = _CASTS.get(dtype, f".to({dtype})") if dtype not in (wanted, torch.bool) else ""
    last = f"({texts[-1]}){cast}" if cast and not is_call(texts[-1]) else f"{texts[-1]}{cast}"
    return Code(last, (f"torch.manual_seed({seed})", *texts[:-1]))


def _shape(shape: tuple[int, ...]) -> str:
    return f"({shape[0]},)" if len(shape) == 1 else repr(tuple(shape))


def is_call(text: str) -> bool:
    """Whether a text is one call or name, to which a method can be added without parentheses."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and (letter == " " or (letter in ")]" and text[place + 1 : place + 2] not in ("", ".", "["))):
            return False
    return True


def _normal(dtype: torch.dtype) -> Code:
    return Code(_NORMAL)


def _mixed(dtype: torch.dtype) -> Code:
    return Code(f"10 ** ({_UNIFORM} * 6 - 4) * {_SIGNS}")


def _zeros(dtype: torch.dtype) -> Code:
    return Code(f"torch.where(torch.rand({{shape}}) < 0.2, {_SIGNS}, v)", (f"v = {_SIGNS} * 0.0",))


def _tiny(dtype: torch.dtype) -> Code:
    return Code(f"{_SIGNS} * torch.finfo({dtype}).smallest_normal * ({_UNIFORM} * 2)")


def _big(dtype: torch.dtype) -> Code:
    return Code(f"60 + 60 * {_UNIFORM}")


def _steep(dtype: torch.dtype) -> Code:
    return Code(f"{_SIGNS} * (1 + 400 * {_UNIFORM})")


def _largest(dtype: torch.dtype) -> float:
    return min(torch.finfo(dtype).max, torch.finfo(torch.float32).max)


def _huge(dtype: torch.dtype) -> Code:
    largest = math.log10(_largest(dtype))
    low = max(largest - 2, largest / 2)
    return Code(f"10 ** ({low!r} + {largest - 0.31 - low!r} * {_UNIFORM}) * {_SIGNS}")


def _loud(dtype: torch.dtype) -> Code:
    return Code(f"{_largest(dtype)!r} * (0.1 + 0.2 * {_UNIFORM})")


def _strewn(values: str, count: int) -> Callable[[torch.dtype], Code]:
    def make(dtype: torch.dtype) -> Code:
        before = (f"v = {_NORMAL}", "w = torch.rand({shape}) < 0.15", "w.view(-1)[0] = True")
        chosen = f"torch.tensor([{values}])[torch.randint(0, {count}, {{shape}})]"
        return Code(f"torch.where(w, {chosen}, v)", before)

    return make


def _small(dtype: torch.dtype) -> Code:
    return Code("torch.randint(0, 4, {shape})")


def _integers(dtype: torch.dtype) -> Code:
    low, first = -9 if dtype.is_signed else 0, min(1000, torch.iinfo(dtype).max)
    return Code("v", (f"v = torch.randint({low}, 100, {{shape}})", f"v.view(-1)[0] = {first}"))


def _extremes(dtype: torch.dtype) -> Code:
    info = torch.iinfo(dtype)
    numbers = f"torch.tensor([{info.min}, {info.max}, 0, 1, {info.max - 1}])"
    return Code("v", (f"v = {numbers}[torch.randint(0, 5, {{shape}})]", f"v.view(-1)[0] = {info.max}"))


_FLOATS: dict[str, Callable[[torch.dtype], Code]] = {
    "normal": _normal,
    "mixed": _mixed,
    "zeros": _zeros,
    "tiny": _tiny,
    "big": _big,
    "steep": _steep,
    "huge": _huge,
    "loud": _loud,
    "nan": _strewn("nan", 1),
    "special": _strewn("nan, inf, -inf", 3),
    # Kinds of integers mean ordinary numbers for a floating tensor.
    "small": _normal,
    "integers": _normal,
    "extremes": _normal,
}
_INTEGERS: dict[str, Callable[[torch.dtype], Code]] = {"small": _small, "integers": _integers, "extremes": _extremes}
_CASTS = {torch.float32: ".float()", torch.float16: ".half()", torch.bfloat16: ".bfloat16()"}
