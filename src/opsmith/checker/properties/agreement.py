"""Compares one call of the kernel with the oracle, or with other results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from opsmith.checker.outcome import Expecting
from opsmith.checker.process.lost_gpu import settle
from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.blame import is_of_reference
from opsmith.subject.case import Case
from opsmith.subject.oracle import Disagreement, Expected, compare, expect

__all__ = [
    "DIFFERS_ONLY",
    "RefusedError",
    "agrees",
    "disagreement",
    "is_repeatable",
    "judged",
    "kind_of",
    "roughly_equal",
]

DIFFERS_ONLY = "differs from the reference only"
_TOLERANCE = 0.05
# Inputs near the largest number of their type, and how much smaller they are where an algorithm of one pass must be right.
_LARGEST = frozenset({"huge", "loud"})
_FAR_ENOUGH = 2.0**-8


class RefusedError(Exception):
    """The reference does not take these arguments: nothing is known about them."""


def disagreement(context: Context, case: Case, notes: set[str] | None = None) -> Disagreement | Exception | None:
    """Return how the kernel's results differ from what they should be, or the kernel's exception; raises RefusedError.

    `notes` gets what a reader should know where they differ and are right all the same.
    """
    subject = context.subject
    values = case.build(context.device)
    context.tell(Expecting(case))
    with refusals():
        expected = expect(subject, case, values)
    context.tell(case)
    try:
        found = subject.kernel_results(values)
        settle(context.device)
    except Exception as error:
        return error
    wrong = judged(found, expected)
    if wrong is None and notes is not None and expected.leaves_padding_out(found):
        notes.add(f"{DIFFERS_ONLY} where zeros of a padding meet an infinity or NaN")
    if (
        notes is not None
        and isinstance(wrong, Disagreement)
        # What has overflowed is not finite, unless another element of a sum or a row is divided by it.
        and (wrong.kind in ("nan", "inf") or not expected.is_pointwise(wrong))
        and _is_near_overflow(context, case)
    ):
        notes.add(f"{DIFFERS_ONLY} where it is within a factor of 2^8 of overflow")
        return None
    if (
        wrong is not None
        and wrong.kind == "shape"
        and case.group in ("empty", "scalars")
        and subject.operator is not None
    ):
        # The definition says the shape, and opsmith holds every kernel to it; some of PyTorch's own functions have
        # another one for nothing (a convolution of no channels), or for another number.
        raise RefusedError("the reference returns another shape than the definition")
    return wrong


def judged(found: list[Tensor], expected: Expected) -> Disagreement | None:
    """Return how results differ from what they should be; raises RefusedError where the reference cannot tell."""
    with refusals():
        return compare(found, expected)


@contextlib.contextmanager
def refusals(describe: Callable[[Exception], str] = str) -> Iterator[None]:
    """Run a reference on one thread, and raise RefusedError for what it raises."""
    try:
        with on_threads(1):
            yield
    except Exception as error:
        if not is_of_reference(error):
            raise
        raise RefusedError(describe(error)) from error


def kind_of(wrong: Disagreement | Exception) -> str:
    """Return what kind of failure it is, which a smaller call has to share: a wrong value is not a NaN or a refusal."""
    return wrong.kind if isinstance(wrong, Disagreement) else type(wrong).__name__


def _is_near_overflow(context: Context, case: Case) -> bool:
    """Whether the kernel is right for the same numbers, of those near the largest of their type, divided by 2^8.

    Algorithms of one pass overflow before others do. In float16 that is not an excuse: sums belong in float32.
    """
    large = {name for name, recipe in case.tensors().items() if recipe.values in _LARGEST and recipe.dtype != "float16"}
    if not large or any("[" in name for name in large):
        return False
    arguments = dict(case.arguments)
    for name in large:
        recipe = case.tensors()[name]
        arguments[name] = replace(recipe, given=recipe.numbers() * _FAR_ENOUGH)
    return agrees(context, replace(case, arguments=arguments))


def agrees(context: Context, case: Case) -> bool:
    """Whether the kernel gives what the reference does; not where the reference refuses the arguments."""
    try:
        return disagreement(context, case) is None
    except RefusedError:
        return False


def is_repeatable(context: Context, case: Case) -> bool:
    """Whether two calls of the kernel give the same numbers."""
    subject = context.subject
    one, other = (subject.kernel_results(case.build(context.device)) for _ in range(2))
    return all(torch.equal(first, second) for first, second in zip(one, other, strict=True))


def roughly_equal(found: list[Tensor], expected: list[Tensor]) -> bool:
    """Whether results are equal but for their last digits: what is read as another type, or elsewhere, is far off."""
    return len(found) == len(expected) and all(map(_is_roughly_equal, found, expected))


def _is_roughly_equal(found: Tensor, expected: Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    if found.is_complex() or expected.is_complex():
        found, expected = (torch.view_as_real(t.to("cpu", torch.complex128).resolve_conj()) for t in (found, expected))
    # What goes to an integer result has been cut off on the way, perhaps more than once.
    is_cut = not found.dtype.is_floating_point
    absolute, relative = (1.0, 0.5) if is_cut else (_TOLERANCE, _TOLERANCE)
    one, other = found.detach().to("cpu", torch.float64), expected.detach().to("cpu", torch.float64)
    return bool(torch.isclose(one, other, relative, absolute, equal_nan=True).all())
