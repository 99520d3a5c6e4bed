"""Makes calls with more than 2^31 elements, which need memory for their results; inputs expand one row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.memory.available import available_memory_bytes, size_text
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import roughly_equal
from opsmith.checker.properties.context import Context
from opsmith.subject.blame import is_out_of_memory
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.space import Choice, Space

__all__ = ["check_large_calls"]

_LIMIT = 1 << 31
# The kernel's results, the reference's, and what a reference of several steps holds between them.
_RESULTS = 8
_ROW = 1 << 12
_CHUNK = 1 << 24


def check_large_calls(context: Context) -> Outcome:
    """Let each size that an output has pass 2^31, one after the other."""
    space = context.subject.suite.space
    if space is None:
        return not_run("without a definition, examples cannot be enlarged")
    tried, unfit, free = 0, 0, 0
    for case in _cases(context, space):
        largest = max(case.tensors().values(), key=lambda recipe: math.prod(recipe.shape))
        needed = _RESULTS * math.prod(largest.shape) * getattr(torch, largest.dtype).itemsize
        free = available_memory_bytes(context.device)
        if needed > free:
            unfit = max(unfit, needed)
            continue
        context.tell(case.label)
        tried += 1
        if (words := _wrong(context, case)) is not None:
            return failed(Finding(f"{case.label}: {words}", hint="Use int64_t for sizes, indices and loop counters."))
    if tried == 0:
        return not_run(
            f"calls of 2^31 elements need {size_text(unfit)} of memory, {size_text(free)} are free"
            if unfit
            else "no output grows with a size"
        )
    return passed(tried, note=f"some calls would need {size_text(unfit)} of memory" if unfit else "")


def _wrong(context: Context, case: Case) -> str | None:
    subject = context.subject
    try:
        expected = subject.results(subject.reference, _build(case, context.device))
    except RuntimeError:
        return None  # out of memory, or of PyTorch's own 32 bits
    try:
        found = subject.kernel_results(_build(case, context.device))
    except (RuntimeError, MemoryError) as error:
        return None if is_out_of_memory(error) else f"it raises {type(error).__name__}: {str(error)[:200]}"
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape:
            return f"output {number} has the shape {tuple(one.shape)}, the reference's has {tuple(other.shape)}"
        for start, mine, theirs in _chunks(one, other):
            same = roughly_equal([mine], [theirs]) if mine.is_floating_point() else torch.equal(mine, theirs)
            if not same:
                return f"output {number} differs from the reference's from element {start:,} on"
    return None


def _chunks(one: Tensor, other: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the beginning, the end and what is around 2^31 of two results, with the index of the first element."""
    first, second = one.reshape(-1), other.reshape(-1)
    length = first.numel()
    for start in sorted({0, max(0, _LIMIT - _CHUNK // 2), max(0, length - _CHUNK)}):
        if start < length:
            yield start, first[start : start + _CHUNK], second[start : start + _CHUNK]


def _cases(context: Context, space: Space) -> Iterator[Case]:
    """Yield calls with one size so large that a tensor has more than 2^31 elements."""
    outputs = [output.tensor.shape for output in space.signature.outputs]
    kept = {name for shape in outputs for name in shape.names}
    small = dict.fromkeys(space.names, 2)
    for group in space.groups:
        if any(shape.variadic_index is not None and (shape.group or "...") == group for shape in outputs):
            shape = (_LIMIT // _ROW + 3, _ROW)
            choice = Choice(
                small, {**dict.fromkeys(space.groups, (1,)), group: shape}, {}, {}, label=f"{group} = {shape}"
            )
            yield from _some(space.case(choice, context.dtypes, context.subject.seed))
    groups = dict.fromkeys(space.groups, (2,))
    for name in space.names:
        one = space.case(Choice(small, groups, {}, {}), context.dtypes, 0) if name in kept else None
        if one is None:
            continue
        # So many of it that the largest tensor has 2^31 elements.
        rest = max(math.prod(recipe.shape) for recipe in one.tensors().values()) // 2
        size = _LIMIT // max(1, rest) + 3
        choice = Choice({**small, name: size}, groups, {}, {}, label=f"{name} = {size:,}")
        yield from _some(space.case(choice, context.dtypes, context.subject.seed))


def _some(case: Case | None) -> list[Case]:
    return [] if case is None else [case]


def _build(case: Case, device: str) -> dict[str, Any]:
    """Return the arguments; a tensor's longest dimension holds the same over and over, so that it takes no memory."""

    def build(value: Any) -> Any:
        if isinstance(value, tuple):
            return [build(item) for item in value]
        if not isinstance(value, TensorRecipe) or math.prod(value.shape) <= _CHUNK:
            return value.build(device) if isinstance(value, TensorRecipe) else value
        longest = max(range(len(value.shape)), key=lambda dim: value.shape[dim])
        row = TensorRecipe(
            tuple(1 if dim == longest else size for dim, size in enumerate(value.shape)), value.dtype, seed=value.seed
        )
        numbers = row.build(device)
        # No zeros: new memory often holds them, and what is never written must not look right.
        return torch.where(numbers == 0, torch.ones_like(numbers), numbers).expand(value.shape)

    return {name: build(value) for name, value in case.arguments.items()}
