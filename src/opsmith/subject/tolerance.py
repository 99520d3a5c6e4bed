"""Computes how far off a kernel may be from the measured effect of one rounding (see `evidence`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.spec.signature import Kind, Signature
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.copies import upcast
from opsmith.subject.draws import drawing_device
from opsmith.subject.layouts import REPEATING
from opsmith.subject.placed_values import ABOVE_ZERO, LAST
from opsmith.subject.subject import Subject

__all__ = [
    "EXTREME",
    "allowed_errors",
    "evened",
    "floor_of_sums",
    "reduction_length",
    "usual_scale",
    "without_known_digits",
]

# How many roundings of the result, and how many times the effect of one rounding in the inputs, a kernel may be off.
# Functions of libm and of a GPU differ by a few units; in half precision the one rounding at the end is most of it.
_OF_RESULT = {torch.float64: 64.0, torch.float32: 16.0, torch.float16: 2.0, torch.bfloat16: 2.0}

_OF_INPUTS = {torch.float64: 16.0, torch.float32: 8.0, torch.float16: 2.0, torch.bfloat16: 2.0}

# The same of what is usual in a result, where elements depend on each other.
_OF_SCALE = 16.0
# What is usual is no more than so many times the median, which few large numbers (as of exp) do not raise. Of normal numbers
# the root of the mean square is 1.5 times that.
_ABOVE_MEDIAN, _SAMPLED = 4.0, 1 << 14

# How many times the reference's own errors, of which few samples are taken.
_OF_NOISE = 4.0

# The part of the others' noise that is allowed each element of ordinary inputs, where elements depend on each other.
_OF_OTHERS = 0.25

# No sum may be off by more than this part, whatever its length: a float32 of one accumulator is off by so much after a
# million terms that are all equal (83,000 roundings, 0.08 each term), and by a ninetieth of that after as many others.
_MOST_OF_LENGTH = 1e-2

# Of n terms in no order a sum in one accumulator is off by less than sqrt(n) roundings; eight times that is allowed. To
# 1,024 terms that is more than a quarter of a rounding each, which is what terms may be off that are rounded alike.
_OF_ROOT = 8.0
# Sums of the first terms that are as many times as large as those of random numbers show that they have an order.
_ORDERED = 6.0
_LINES = 64

# Integers that move by less than this part of their range are quantities, and no indices.
_OF_RANGE = 1 / 16

# Where each number stands for so many elements, the terms of a sum are hardly independent.
_EQUAL = 8
# Of more elements a 64th is looked at: those whose bits, multiplied, begin with these six. The factors are 2^32 and 2^64
# over the golden ratio, which spread numbers evenly.
_MANY, _PART = 1 << 16, 21
_SPREADING = {torch.float32: (torch.int32, -1640531535, 26), torch.float64: (torch.int64, -7046029254386353131, 58)}

EXTREME = frozenset({"mixed", "faint", "big", "steep", "huge", "loud"})
_CPU = torch.device("cpu")


def allowed_errors(
    value: Tensor, spread: Tensor, correlated: Tensor, noise: Tensor, dtype: torch.dtype | None, length: int
) -> Tensor:
    """Return how far off each element may be; `length` is how many terms a sum inside may have, 0 for none.

    `spread` is what roundings of the inputs do, one by one; `correlated`, what they do together, is measured against all
    that is added up, and does not grow with the length again.
    """
    if dtype is None or not value.dtype.is_floating_point:
        return _of_discrete(value, spread, correlated, noise, dtype, length)
    info = torch.finfo(dtype)
    of_length = _of_length(dtype, length)
    total = value.abs().to(torch.float64).nan_to_num_(0.0, 0.0, 0.0).mul_((_OF_RESULT[dtype] + of_length) * info.eps)
    total.add_(spread, alpha=_OF_INPUTS[dtype] + of_length).add_(correlated, alpha=_OF_INPUTS[dtype])
    # What is denormal in float32 may be flushed to zero, in each term of a sum too, and in half precision the last unit of
    # such a number is a rounding. An infinity is right or wrong.
    denormal = min(info.smallest_normal, torch.finfo(torch.float32).smallest_normal)
    last_unit = info.smallest_normal * info.eps
    total.add_(noise, alpha=_OF_NOISE).add_((4 + length) * denormal + 4 * last_unit)
    return total.nan_to_num_(nan=math.inf, posinf=math.inf)


def _of_discrete(
    value: Tensor, spread: Tensor, correlated: Tensor, noise: Tensor, dtype: torch.dtype | None, length: int
) -> Tensor:
    """Return how far off each integer may be: it is right or wrong, but where a rounding of what is inside moves it.

    A quantity moves by little of its range, as a number in fixed point does, and may be off by as much as others are. An
    index moves anywhere: which of two nearly equal numbers is the largest says nothing of where they are.
    """
    moved = noise > 0
    if dtype is None or not bool(moved.any()):
        return torch.zeros_like(noise)
    least, most = torch.aminmax(value)
    if float(noise.max()) > (float(most) - float(least)) * _OF_RANGE:
        return torch.where(moved, math.inf, 0.0).to(torch.float64)
    total = 1 + spread * (_OF_INPUTS[dtype] + _of_length(dtype, length)) + correlated * _OF_INPUTS[dtype]
    return torch.where(moved, total + noise * _OF_NOISE, 0.0).nan_to_num_(nan=math.inf, posinf=math.inf)


def _of_length(dtype: torch.dtype, length: int) -> float:
    """Return how many roundings a sum of so many terms may be off besides; in half precision sums belong in float32."""
    return min(length / 4, _MOST_OF_LENGTH / torch.finfo(dtype).eps) if dtype in (torch.float32, torch.float64) else 0.0


def floor_of_sums(value: Tensor, dtype: torch.dtype, usual: float) -> float:
    """Return what each element may be off where elements depend on each other in a way that the inputs do not show.

    Sums inside are as accurate as float32 at least, measured against what is usual in the result.
    """
    scale = min(_usual(value), _ABOVE_MEDIAN * _median(value))
    eps = min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    return _OF_SCALE * eps * max(scale if math.isfinite(scale) else 0.0, usual)


def evened(noise: Tensor) -> Tensor:
    """Return noise with a part of what all have added to each: where roundings grow from step to step, or the reference
    has lost its digits too, chance decides which element has few.
    """
    return noise + _OF_OTHERS * _usual(noise)


def without_known_digits(noise: Tensor, value: Tensor) -> Tensor:
    """Return noise that is at least what is usual in a result, where four times the noise could as well make it zero.

    After some dozen steps of a recurrence whose weights are large, an element is the opposite of what it was.
    """
    usual = _usual(value.to(torch.float64))
    return torch.where(_OF_NOISE * noise > usual, noise.clamp(min=usual), noise)


def _median(values: Tensor) -> float:
    """Return the median of the magnitudes of finite numbers that are not 0, of some of many; 0 where there are none."""
    some = values.reshape(-1)[:: max(1, values.numel() // _SAMPLED)].abs()
    some = some[some.isfinite() & (some > 0)]
    return float(some.to(torch.float64).median()) if some.numel() > 0 else 0.0


def _usual(values: Tensor) -> float:
    """Return the root of the mean square of the finite numbers; 0 where there are none."""
    norm = float(torch.linalg.vector_norm(values)) if values.numel() > 0 else 0.0
    if math.isfinite(norm):
        return norm / math.sqrt(max(values.numel(), 1))
    finite = values[values.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() > 0 else 0.0


def usual_scale(
    case: Case, run: Callable[[Mapping[str, Any]], list[Tensor]], dtype: torch.dtype | None, device: torch.device = _CPU
) -> float:
    """Return how large results are for ordinary inputs, at most 1. Large tensors are tried on the `device`.

    Where a result is far smaller, the reference may have lost all digits of it (1 - tanh(20)**2 is 0) and a better
    kernel none. This does not apply to inputs that are tiny themselves.
    """
    recipes = case.tensors().values()
    if dtype is None or not any(recipe.values in EXTREME for recipe in recipes):
        return 0.0
    try:
        place = drawing_device(case.elements, device)
        results = run(upcast(case.changed(values="normal").build(place, place)))
    except Exception:
        return 0.0
    largest = [float(result.abs().nan_to_num(0.0).max()) for result in results if result.numel() > 0]
    return min(1.0, max(largest, default=0.0))


def reduction_length(subject: Subject, case: Case, results: Sequence[Tensor]) -> int:
    """Return how many terms a sum in the operator may have whose roundings all go one way; `results` are the reference's.

    Roundings of terms in no order go both ways, and a sum of many such is off like one of few that are rounded alike.
    """
    length = _most_terms(subject, case, results)
    usual = math.ceil(4 * _OF_ROOT * math.sqrt(length))
    recipes = case.tensors().values()
    return length if length <= usual or _have_equal_terms(recipes) or any(map(_is_ordered, recipes)) else usual


def _most_terms(subject: Subject, case: Case, results: Sequence[Tensor]) -> int:
    """Return how many terms a sum in the operator may have: the product of the sizes that no output has.

    A size that an output has may be summed over as well (softmax, a running sum). Of such a sum the usual error is
    counted, which grows with the root of the length; but of rows of a few different numbers, whose terms are all rounded
    alike, that of the length itself.
    """
    tensors = case.tensors()
    longest = max((size for recipe in tensors.values() for size in recipe.shape), default=1)
    if subject.signature is None:
        # Sizes have no names: a result's may be any that are equal.
        gone = [
            math.prod((Counter(recipe.shape) - Counter(result.shape)).elements())
            for recipe in tensors.values()
            for result in results
        ]
        return max(1, longest, *gone)
    signature = subject.signature
    kept = {name for output in signature.outputs for name in output.tensor.shape.names}
    kept_groups = {output.tensor.shape.group for output in signature.outputs}
    length = longest if _have_equal_terms(tensors.values()) else math.isqrt(longest)
    windows = _unnamed_positions(signature, results)
    for parameter in signature.tensors:
        if parameter.kind is not Kind.TENSOR or (recipe := tensors.get(parameter.name)) is None:
            continue
        shape = parameter.tensor_type.shape
        own = 1
        for index, dim in enumerate(shape.dims):
            if dim.variadic and dim.group not in kept_groups:
                own *= math.prod(recipe.shape[: len(recipe.shape) - len(shape.dims) + 1])
            elif dim.expression is not None and not dim.expression.names <= kept:
                axis = shape.axis(index)
                own *= recipe.shape[axis]
        length = max(length, own // windows)
    return max(1, length)


def _unnamed_positions(signature: Signature, results: Sequence[Tensor]) -> int:
    """Return how many positions results have along dimensions that no symbol names, as those of windows have none."""
    found = []
    for output, result in zip(signature.outputs, results, strict=False):
        dims = output.tensor.shape.dims
        if len(dims) == result.dim():
            sizes = zip(dims, result.shape, strict=True)
            found.append(math.prod(size for dim, size in sizes if dim.expression is None and not dim.variadic))
    return max(1, min(found, default=1))


def _have_equal_terms(recipes: Iterable[TensorRecipe]) -> bool:
    """Whether all tensors of numbers have few different ones: products with other numbers are many."""
    floating = [one for one in recipes if getattr(torch, one.dtype).is_floating_point]
    return bool(floating) and all(map(_has_equal_terms, floating))


def _has_equal_terms(recipe: TensorRecipe) -> bool:
    """Whether a tensor has few different numbers, whose roundings in a sum all go the same way."""
    given = recipe.given
    if given is None:
        return recipe.values in (ABOVE_ZERO, LAST) or recipe.layout in REPEATING
    return given.is_floating_point() and _has_few_numbers(given.detach().reshape(-1))


def _is_ordered(recipe: TensorRecipe) -> bool:
    """Whether a tensor's numbers come in an order, as on a slope, by which a sum goes far off and comes back."""
    given = recipe.given
    if given is None or not given.is_floating_point():
        return False
    for dim, size in enumerate(given.shape):
        if size <= (2 * _ORDERED) ** 2 or given.numel() == 0:
            continue  # no order of so few goes that far
        lines = given.detach().movedim(dim, -1).reshape(-1, size)
        some = lines[:: max(1, len(lines) // _LINES)].to(torch.float64).nan_to_num(0.0, 0.0, 0.0)
        rest = some - some.mean(1, keepdim=True)
        usual = rest.square().sum(1).sqrt()
        if bool((rest.cumsum(1).abs().amax(1) > _ORDERED * usual).any()):
            return True
    return False


def _has_few_numbers(given: Tensor) -> bool:
    """Whether each number stands for several elements of a tensor [N]. Sorting a large one takes longer than all else."""
    if given.numel() > _MANY and given.dtype in _SPREADING:
        bits, factor, shift = _SPREADING[given.dtype]
        # A part that the numbers decide about: all elements of one number are in it, or none.
        given = given[(given.view(bits) * factor >> shift) == _PART]
    return bool(given.unique().numel() * _EQUAL <= given.numel())
