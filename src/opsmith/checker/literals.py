"""Writes a tensor of a check as Python: few elements as numbers, many as constructor calls that make the same ones.

The code makes exactly the same tensor, the same bits in the same layout, and names nothing but torch, inf and nan.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable

import torch
from torch import Tensor

from opsmith.checker.bits import element_bytes
from opsmith.checker.constructors import Code, constructor_code, is_call
from opsmith.subject.case import TensorRecipe
from opsmith.subject.layouts import apply_layout, lay_out

__all__ = ["FEW", "TOO_LARGE", "Code", "number_text", "tensor_code"]

# As many numbers as a reader looks at.
FEW = 64
# As many as are written where nothing shorter makes them: those of an example.
_MANY = 256
_WIDTH = 96
# Stands in a program whose numbers are missing.
TOO_LARGE = "too large to print: use the example's"


def tensor_code(recipe: TensorRecipe, device: str, few: int = FEW) -> Code:
    """Return the code of a recipe's tensor; with more elements than `few` it is made by constructor calls."""
    count = math.prod(recipe.shape)
    numbers = recipe.numbers()
    made = _made(recipe, numbers) if count > few else None
    if made is None and count > max(few, _MANY):
        if recipe.given is None:
            return Code(f"{recipe!r}.build({device!r})")  # a kind without constructor calls
        return Code(f"torch.empty({tuple(recipe.shape)}, {_kind(recipe.dtype, device)})  # {TOO_LARGE}")
    layout = recipe.layout if apply_layout(recipe.layout, numbers.dim()) else "contiguous"
    if layout == "contiguous" and made is not None:
        return Code(made.expression if device == "cpu" else f"{_held(made.expression)}.to({device!r})", made.before)
    before: tuple[str, ...] = ()
    inside = ""
    if made is not None:
        before, inside = (*made.before, f"v = {made.expression}"), "v"
    if (write := _LAYOUTS.get(layout)) is not None:
        return Code(write(numbers, inside, device), before)
    return Code(_strided(lay_out(numbers, layout), numbers, inside, device), before)


def _made(recipe: TensorRecipe, numbers: Tensor) -> Code | None:
    """Return constructor calls that make these very numbers, or None if there are none."""
    shape, dtype = tuple(numbers.shape), numbers.dtype
    if recipe.given is None:
        code = constructor_code(shape, dtype, recipe.values, recipe.seed, recipe.near)
        return code if _makes(code, numbers) else None
    flat = numbers.reshape(-1)
    first = number_text(flat[0].item(), dtype)
    for text in (
        f"torch.full({shape}, {first}, dtype={dtype})",
        f"torch.arange({flat.numel()}, dtype={dtype}).reshape({shape})",
    ):
        if _makes(Code(text), numbers):
            return Code(text)
    return None


def _makes(code: Code, numbers: Tensor) -> bool:
    """Whether code makes exactly these numbers. It leaves PyTorch's generator as it was."""
    names = {"torch": torch, "inf": math.inf, "nan": math.nan}
    try:
        with torch.random.fork_rng(devices=[]):
            exec("\n".join(code.before), names)  # the code is from here and from `constructors`
            found = eval(code.expression, names)
    except RuntimeError:
        return False  # arange has no bfloat16 of that size, say
    same = found.dtype == numbers.dtype and found.shape == numbers.shape
    return bool(same and found.is_contiguous() and torch.equal(element_bytes(found), element_bytes(numbers)))


def _held(expression: str) -> str:
    """Return an expression to which a method can be added."""
    return expression if is_call(expression) else f"({expression})"


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


def _contiguous(numbers: Tensor, inside: str, device: str) -> str:
    return inside or _literal(numbers, device)


def _transposed(numbers: Tensor, inside: str, device: str) -> str:
    order = tuple(reversed(range(numbers.dim())))
    turn = ".t()" if numbers.dim() == 2 else f".permute{order}"
    if inside:
        return f"{inside}{turn}.contiguous(){turn}{_to(device)}"
    return f"{_literal(numbers.permute(order).contiguous(), device)}{turn}"


def _every_second(numbers: Tensor, inside: str, device: str) -> str:
    shape = (*numbers.shape[:-1], 2 * numbers.shape[-1])
    return f"{_around(numbers, shape, device)}[..., ::2]{_put(numbers, inside, device)}"


def _inner_rows(numbers: Tensor, inside: str, device: str) -> str:
    where = ", ".join(f"1:{size + 1}" for size in numbers.shape)
    shape = tuple(size + 3 for size in numbers.shape)
    return f"{_around(numbers, shape, device)}[{where}]{_put(numbers, inside, device)}"


def _offset(numbers: Tensor, inside: str, device: str) -> str:
    flat = f"{_around(numbers, (numbers.numel() + 1,), device)}[1:]"
    view = "" if numbers.dim() == 1 else f".view({tuple(numbers.shape)})"
    return f"{flat}{view}{_put(numbers, inside, device)}"


def _expanded(numbers: Tensor, inside: str, device: str) -> str:
    if numbers.shape[0] == 0:
        return _contiguous(numbers, inside, device)
    row = f"{inside}[:1]{_to(device)}" if inside else _literal(numbers[:1], device)
    return f"{row}.expand({tuple(numbers.shape)})"


def _channels_last(numbers: Tensor, inside: str, device: str) -> str:
    name = {4: "channels_last", 5: "channels_last_3d"}[numbers.dim()]
    to = _to(device) if inside else ""
    return f"{_contiguous(numbers, inside, device)}{to}.contiguous(memory_format=torch.{name})"


def _strided(laid: Tensor, numbers: Tensor, inside: str, device: str) -> str:
    """Write any layout by its strides; dimensions whose elements share memory are expanded."""
    shared = [size > 1 and stride == 0 for size, stride in zip(laid.shape, laid.stride(), strict=True)]
    shape = tuple(1 if is_shared else size for size, is_shared in zip(laid.shape, shared, strict=True))
    once = numbers
    for dim, is_shared in enumerate(shared):
        once = once.narrow(dim, 0, 1) if is_shared else once
    if inside and any(shared):
        inside += f"[{', '.join(':1' if is_shared else ':' for is_shared in shared)}]"
    length = laid.untyped_storage().nbytes() // laid.element_size()
    where = f".as_strided({shape}, {tuple(laid.stride())}, {laid.storage_offset()})"
    text = f"{_around(numbers, (length,), device)}{where}{_put(once.contiguous(), inside, device)}"
    return f"{text}.expand({tuple(laid.shape)})" if any(shared) else text


def _to(device: str) -> str:
    return "" if device == "cpu" else f".to({device!r})"


def _around(numbers: Tensor, shape: tuple[int, ...], device: str) -> str:
    """Return the memory around a tensor, filled with numbers that no kernel should read (see opsmith.subject.layouts)."""
    dtype = numbers.dtype
    value = "True" if dtype is torch.bool else "7777.0" if dtype.is_floating_point else "77"
    return f"torch.full({shape}, {value}, {_kind(str(dtype).removeprefix('torch.'), device)})"


def _put(numbers: Tensor, inside: str, device: str) -> str:
    return f".copy_({inside or _literal(numbers, device)})"


# Layouts that PyTorch has words for; the others are said by their strides.
_LAYOUTS: dict[str, Callable[[Tensor, str, str], str]] = {
    "contiguous": _contiguous,
    "transposed": _transposed,
    "every second": _every_second,
    "inner rows": _inner_rows,
    "offset": _offset,
    "expanded": _expanded,
    "channels_last": _channels_last,
}
