"""Writes a tensor of a check as a line of Python: few elements as numbers, many by the recipe that makes them.

The line makes exactly the same tensor: the same bits in the same layout.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from opsmith.subject.case import TensorRecipe
from opsmith.subject.layouts import apply_layout

__all__ = ["number_text", "tensor_code"]

# As many numbers as a reader looks at; more are written only where no recipe makes them.
_FEW = 64
_MANY = 1024
_WIDTH = 96


def tensor_code(recipe: TensorRecipe, device: str) -> str:
    """Return an expression that makes a tensor of a recipe. It may name torch, inf, nan, lay_out and TensorRecipe."""
    count = math.prod(recipe.shape)
    if recipe.given is None and count > _FEW:
        parts = (recipe.shape, recipe.dtype, recipe.layout, recipe.values, recipe.seed)
        near = f", near={recipe.near!r}" if recipe.near else ""
        return f"TensorRecipe({', '.join(map(repr, parts))}{near}).build({device!r})"
    if count > _MANY:
        return f"torch.empty({tuple(recipe.shape)}, {_kind(recipe.dtype, device)})  # too large to print: use the example's"
    numbers = recipe.numbers()
    layout = recipe.layout if apply_layout(recipe.layout, numbers.dim()) else "contiguous"
    write = _LAYOUTS.get(layout)
    if write is None:
        return f"lay_out({_literal(numbers, device)}, {layout!r})"
    return write(numbers, device)


def number_text(number: complex | bool, dtype: torch.dtype) -> str:
    """Return a number as Python reads it, with as few digits as tell it from all others of its type."""
    if not isinstance(number, float) or not math.isfinite(number):
        return repr(number)
    short = repr(number)
    for digits in range(1, 10) if dtype is not torch.float64 else ():
        tried = repr(float(f"{number:.{digits}g}"))
        if float(torch.tensor(float(tried), dtype=torch.float64).to(dtype)) == number:
            short = tried
            break
    return short


def _literal(numbers: Tensor, device: str) -> str:
    kind = _kind(str(numbers.dtype).removeprefix("torch."), device)
    shape = tuple(numbers.shape)
    if numbers.numel() == 0:
        return f"torch.empty({shape}, {kind})"
    texts = [number_text(number, numbers.dtype) for number in numbers.reshape(-1).tolist()]
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"torch.full({shape}, {texts[0]}, {kind})"
    return f"torch.tensor({_nested(texts, shape)}, {kind})"


def _nested(texts: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return texts[0]
    if len(shape) == 1:
        line = f"[{', '.join(texts)}]"
        return line if len(line) <= _WIDTH else "\n".join(textwrap.wrap(line, _WIDTH, subsequent_indent="    "))
    size = len(texts) // shape[0]
    rows = [_nested(texts[at : at + size], shape[1:]) for at in range(0, len(texts), size)]
    line = f"[{', '.join(rows)}]"
    return line if len(line) <= _WIDTH and "\n" not in line else "[{}]".format(",\n    ".join(rows))


def _kind(dtype: str, device: str) -> str:
    return f"dtype=torch.{dtype}" + (f", device={device!r}" if device != "cpu" else "")


def _transposed(numbers: Tensor, device: str) -> str:
    order = tuple(reversed(range(numbers.dim())))
    inside = _literal(numbers.permute(order).contiguous(), device)
    return f"{inside}.t()" if numbers.dim() == 2 else f"{inside}.permute{order}"


def _every_second(numbers: Tensor, device: str) -> str:
    return f"{_around(numbers, (*numbers.shape[:-1], 2 * numbers.shape[-1]), device)}[..., ::2]{_put(numbers, device)}"


def _inner_rows(numbers: Tensor, device: str) -> str:
    where = ", ".join(f"1:{size + 1}" for size in numbers.shape)
    return f"{_around(numbers, tuple(size + 3 for size in numbers.shape), device)}[{where}]{_put(numbers, device)}"


def _offset(numbers: Tensor, device: str) -> str:
    flat = f"{_around(numbers, (numbers.numel() + 1,), device)}[1:]"
    view = "" if numbers.dim() == 1 else f".view({tuple(numbers.shape)})"
    return f"{flat}{view}{_put(numbers, device)}"


def _expanded(numbers: Tensor, device: str) -> str:
    if numbers.shape[0] == 0:
        return _literal(numbers, device)
    return f"{_literal(numbers[:1], device)}.expand({tuple(numbers.shape)})"


def _channels_last(numbers: Tensor, device: str) -> str:
    name = {4: "channels_last", 5: "channels_last_3d"}[numbers.dim()]
    return f"{_literal(numbers, device)}.contiguous(memory_format=torch.{name})"


def _cut_from_transposed(numbers: Tensor, device: str) -> str:
    order = tuple(reversed(range(numbers.dim())))
    around = _around(numbers, tuple(size + 3 for size in reversed(numbers.shape)), device)
    where = ", ".join(f"1:{size + 1}" for size in numbers.shape)
    return f"{around}.permute({order})[{where}]{_put(numbers, device)}"


def _leading(numbers: Tensor, device: str) -> str:
    *before, columns = numbers.shape
    return f"{_around(numbers, (*before, columns + 3), device)}[..., :{columns}]{_put(numbers, device)}"


def _sliced_twice(numbers: Tensor, device: str) -> str:
    *before, rows, columns = numbers.shape
    return f"{_around(numbers, (*before, 2 * rows, 3 * columns), device)}[..., ::2, ::3]{_put(numbers, device)}"


def _exchanged(numbers: Tensor, device: str, one: int, other: int) -> str:
    inside = _literal(numbers.transpose(one, other).contiguous(), device)
    return f"{inside}.transpose({one}, {other})"


def _cut_from_channels_last(numbers: Tensor, device: str) -> str:
    name = {4: "channels_last", 5: "channels_last_3d"}[numbers.dim()]
    around = _around(numbers, (numbers.shape[0], *(size + 3 for size in numbers.shape[1:])), device)
    where = ", ".join(f"1:{size + 1}" for size in numbers.shape[1:])
    return f"{around}.contiguous(memory_format=torch.{name})[:, {where}]{_put(numbers, device)}"


def _expanded_columns(numbers: Tensor, device: str) -> str:
    if numbers.shape[-1] == 0:
        return _literal(numbers, device)
    return f"{_literal(numbers[..., :1], device)}.expand({tuple(numbers.shape)})"


def _around(numbers: Tensor, shape: tuple[int, ...], device: str) -> str:
    """Return the memory around a tensor, filled with numbers that no kernel should read (see opsmith.subject.layouts)."""
    dtype = numbers.dtype
    value = "True" if dtype is torch.bool else "7777.0" if dtype.is_floating_point else "77"
    return f"torch.full({shape}, {value}, {_kind(str(dtype).removeprefix('torch.'), device)})"


def _put(numbers: Tensor, device: str) -> str:
    return f".copy_(\n    {_literal(numbers, device)}\n)"


# Layouts that plain PyTorch says in a line; the others are made by `lay_out`.
_LAYOUTS: dict[str, Callable[[Tensor, str], str]] = {
    "contiguous": _literal,
    "transposed": _transposed,
    "every second": _every_second,
    "inner rows": _inner_rows,
    "offset": _offset,
    "expanded": _expanded,
    "channels_last": _channels_last,
    "cut out of a transposed one": _cut_from_transposed,
    "with a larger leading dimension": _leading,
    "sliced in two dimensions": _sliced_twice,
    "with its last dimension expanded": _expanded_columns,
    "with its first two dimensions exchanged": partial(_exchanged, one=0, other=1),
    "with its last two dimensions exchanged": partial(_exchanged, one=-2, other=-1),
    "with its middle dimensions exchanged": partial(_exchanged, one=1, other=2),
    "cut out of a channels_last one": _cut_from_channels_last,
}
