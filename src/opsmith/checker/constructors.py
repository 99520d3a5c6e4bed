"""Writes the numbers of a tensor's recipe as constructor calls of PyTorch's, for tensors too large for a literal.

Each text draws from PyTorch's own generator after `torch.manual_seed` what `opsmith.subject.values` draws from one of its
own, in the same order, and so makes the same bits. Whoever uses a text makes sure of that: see `literals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from opsmith.subject.placed_values import ABOVE_ZERO, LAST, are_indices, bounds_of
from opsmith.subject.values import beyond_bits, first_integers, numbers_of_ties

__all__ = ["Code", "constructor_code", "is_call"]


@dataclass(frozen=True)
class Code:
    """An expression, and the statements that have to come before it."""

    expression: str
    before: tuple[str, ...] = ()


_SIGNS = "(torch.randint(0, 2, {shape}).double() * 2 - 1)"
_UNIFORM = "torch.rand({shape}, dtype=torch.float64)"
_NORMAL = "torch.randn({shape}, dtype=torch.float64)"


def constructor_code(
    shape: tuple[int, ...], dtype: torch.dtype, values: str, seed: int, near: tuple[float, ...] = ()
) -> Code:
    """Return code for a kind of values, contiguous and on the CPU; of a kind that is not known here, for ordinary ones.

    The statements may set `v` and `w`.
    """
    if values == LAST and shape:
        code = _last(shape, dtype)
    elif values == ABOVE_ZERO:
        code = _above_zero(dtype)
    elif dtype is torch.bool:
        code = Code("torch.rand({shape}) < 0.5")
    elif not dtype.is_floating_point:
        code = _indices(values) if are_indices(values) else _INTEGERS.get(values, _small)(dtype)
    elif values in _ROWS:
        code = _ROWS[values](shape)
    else:
        code = _ties(near, math.prod(shape)) if values == "ties" else _FLOATS.get(values, _normal)(dtype)
    count = str(math.prod(shape))
    texts = [
        text.replace("{shape}", _shape(shape)).replace("{count}", count) for text in (*code.before, code.expression)
    ]
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


def _zeros(shape: tuple[int, ...]) -> Code:
    zeros = f"v = {_SIGNS} * 0.0"
    if len(shape) < 2 or math.prod(shape) <= shape[-1]:
        return Code(f"torch.where(torch.rand({{shape}}) < 0.2, {_SIGNS}, v)", (zeros,))
    ones = "w = torch.rand({shape}) < 0.2"
    return Code(f"torch.where(w, {_SIGNS}, v)", (zeros, ones, f"w.view(-1, {shape[-1]})[0] = False"))


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


def _ties(near: tuple[float, ...], count: int) -> Code:
    numbers = numbers_of_ties(near)
    listed = f"v = torch.tensor([{', '.join(map(repr, numbers))}], dtype=torch.float64)"
    repeated = f"v.repeat({1 + count // len(numbers)})[:{{count}}]"
    return Code(f"{repeated}[torch.randperm({{count}})].reshape({{shape}})", (listed,))


def _faint(dtype: torch.dtype) -> Code:
    smallest = math.log10(max(torch.finfo(dtype).smallest_normal, torch.finfo(torch.float32).smallest_normal))
    return Code(f"10 ** ({smallest / 3!r} - {smallest * 5 / 24!r} * {_UNIFORM}) * {_SIGNS}")


def _strewn(*values: float) -> Callable[[torch.dtype], Code]:
    numbers = f"torch.tensor([{', '.join(map(repr, values))}])[torch.randint(0, {len(values)}, {{shape}})]"
    where = "w = (torch.rand({shape}) < 0.15) | (torch.arange({count}).reshape({shape}) == 0)"
    return lambda dtype: Code(f"torch.where(w, {numbers}, v)", (f"v = {_NORMAL}", where))


def _rows(shape: tuple[int, ...]) -> Code:
    if len(shape) < 2:
        return Code("torch.full({shape}, -inf).double()")
    return Code("v", (f"v = {_NORMAL}", *_filled_rows(shape[-1])))


def _columns(shape: tuple[int, ...]) -> Code:
    if len(shape) < 2:
        return Code(f"torch.where(torch.arange({math.prod(shape)}).reshape({{shape}}) == 1, {_NORMAL}, -inf)")
    before = (f"v = {_NORMAL}.transpose(0, -1).contiguous()", *_filled_rows(shape[0]))
    return Code("v.transpose(0, -1).contiguous()", before)


def _filled_rows(length: int) -> tuple[str, ...]:
    """Return the statements that make rows of `v` -inf, NaN or alike, in turns."""
    middle = length // 2
    return (
        f"w = v.view(-1, {length})",
        f"w[0::7], w[1::7, :{middle}], w[1::7, {middle + 1}:], w[6::7, -1] = -inf, -inf, -inf, -inf",
        f"w[2::7], w[3::7, {middle}], w[4::7], w[5::7] = nan, inf, w[4::7, {middle}].unsqueeze(1), inf",
    )


def _last(shape: tuple[int, ...], dtype: torch.dtype) -> Code:
    longest = max(range(len(shape)), key=lambda dim: shape[dim])
    others = tuple(1 if dim == longest else size for dim, size in enumerate(shape))
    if dtype is torch.bool:
        numbers, last = "(~w).expand({shape}).clone()", "w"
    elif dtype.is_floating_point:
        numbers, last = "torch.randint(-7, 8, {shape}).double() / 8", "torch.where(w, 9.0, -9.0)"
    else:
        numbers, last = "torch.randint(1, 4, {shape})", "torch.where(w, 9, 0)"
    turns = f"w = (torch.arange({math.prod(others)}) % 2 == 0).reshape({_shape(others)})"
    return Code("v", (turns, f"v = {numbers}", f"v.narrow({longest}, {shape[longest] - 1}, 1).copy_({last})"))


def _above_zero(dtype: torch.dtype) -> Code:
    if dtype is torch.bool:
        return Code("torch.ones({shape}, dtype=torch.bool)")
    return Code(
        "torch.randint(1, 8, {shape}).double() / 8" if dtype.is_floating_point else "torch.randint(1, 4, {shape})"
    )


def _indices(values: str) -> Code:
    first, last = bounds_of(values)
    return Code("v", (f"v = torch.randint({first}, {last + 1}, {{shape}})", f"v.view(-1)[0] = {last}"))


def _small(dtype: torch.dtype) -> Code:
    return Code("torch.randint(0, 4, {shape})")


def _integers(dtype: torch.dtype) -> Code:
    first = first_integers(dtype)
    numbers = f"v = torch.randint({-99 if dtype.is_signed else 0}, 100, {{shape}})"
    return Code("v", (numbers, f"v.view(-1)[:{len(first)}] = torch.tensor({first})[:{{count}}]"))


def _extremes(dtype: torch.dtype) -> Code:
    info = torch.iinfo(dtype)
    numbers = f"torch.tensor([{info.min}, {info.max}, 0, 1, {info.max - 1}])"
    return Code("v", (f"v = {numbers}[torch.randint(0, 5, {{shape}})]", f"v.view(-1)[0] = {info.max}"))


def _wide(dtype: torch.dtype) -> Code:
    beyond = beyond_bits(dtype)
    numbers = f"v = torch.tensor({beyond})[torch.randint(0, {len(beyond)}, {{shape}})]"
    return Code("v", (f"{numbers} + torch.randint(0, 4, {{shape}})", f"v.view(-1)[0] = {beyond[-1] + 1}"))


_FLOATS: dict[str, Callable[[torch.dtype], Code]] = {
    "normal": _normal,
    "mixed": _mixed,
    "tiny": _tiny,
    "big": _big,
    "steep": _steep,
    "huge": _huge,
    "loud": _loud,
    "faint": _faint,
    "nan": _strewn(math.nan),
    "special": _strewn(math.nan, math.inf, -math.inf),
}
_ROWS: dict[str, Callable[[tuple[int, ...]], Code]] = {"zeros": _zeros, "rows": _rows, "columns": _columns}
_INTEGERS: dict[str, Callable[[torch.dtype], Code]] = {
    "small": _small,
    "integers": _integers,
    "extremes": _extremes,
    "wide": _wide,
}
_CASTS = {torch.float32: ".float()", torch.float16: ".half()", torch.bfloat16: ".bfloat16()"}
