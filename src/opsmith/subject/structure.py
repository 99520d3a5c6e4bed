"""Finds out whether an operator is pointwise: whether each element of a result depends on one element of each input.

Such a result owes nothing to its neighbours, so it has to be right to its own last digits, however large they are. And in
which arguments it is affine: what an infinity in one of these becomes may depend on the order of sums and products.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from opsmith.subject.case import Case
from opsmith.subject.copies import copied, floating_names, integer_names, mapped, upcast
from opsmith.subject.draws import Draws, drawing_device
from opsmith.subject.stochastic import Run
from opsmith.subject.subject import Subject

__all__ = ["affine_arguments", "pointwise_results"]

# How often half of an argument's elements is exchanged. A sum over two elements passes one such test in two.
_TRIES = 5
_SEED = 977
# Of numbers that are added up twice, in float64.
_SAME = 1e-9
_CPU = torch.device("cpu")
T = TypeVar("T")


def pointwise_results(
    subject: Subject, case: Case, run: Run, about: Hashable, device: torch.device = _CPU
) -> tuple[bool, ...]:
    """Return for each result of `run` whether it is pointwise, as far as experiments show; () if they fail.

    Large tensors are tried on the `device`. The answer is kept with the subject, by `about` and the case's arguments that
    are not tensors.
    """
    return _known(subject, case, about, "_pointwise", lambda: _measured(run, _plain_values(case, device)))


def affine_arguments(
    subject: Subject, case: Case, run: Run, about: Hashable, device: torch.device = _CPU
) -> tuple[str, ...]:
    """Return the floating arguments that all floating results of `run` are affine in, one at a time; () if that fails."""
    return _known(subject, case, about, "_affine", lambda: _affine(run, _plain_values(case, device)))


def _known(
    subject: Subject, case: Case, about: Hashable, kept: str, measure: Callable[[], tuple[T, ...]]
) -> tuple[T, ...]:
    known: dict[Any, tuple[T, ...]] = subject.__dict__.setdefault(kept, {})
    key = (about, repr({name: _form(value) for name, value in case.arguments.items()}))
    if key not in known:
        try:
            known[key] = measure()
        except Exception:
            known[key] = ()  # the reference does not take other numbers: boxes, probabilities, permutations
    return known[key]


def _plain_values(case: Case, device: torch.device) -> dict[str, Any]:
    plain = case.changed(values="normal", layout="contiguous")
    place = drawing_device(case.elements, device)
    return upcast(plain.build(place, place))


def _affine(run: Run, values: Mapping[str, Any]) -> tuple[str, ...]:
    draws = Draws(_SEED)
    # An example's numbers stay, and may be infinite.
    values = {**values, **mapped(values, lambda one: torch.where(one.isfinite(), one, draws.normal(one)))}

    def results(name: str, value: Any) -> list[Tensor]:
        found = run({**copied(values), **copied({name: value})})
        return [one.detach() for one in found if one.dtype.is_floating_point]

    def is_affine(name: str) -> bool:
        one = values[name]
        other = mapped({name: one}, draws.normal)[name]
        zero = mapped({name: one}, torch.zeros_like)[name]
        both = [a + b for a, b in zip(one, other, strict=True)] if isinstance(one, list) else one + other
        parts = zip(*(results(name, value) for value in (one, other, both, zero)), strict=True)
        return all(
            a.shape == c.shape and bool(((a + b - c - d).abs() <= _SAME * (a.abs() + b.abs() + d.abs())).all())
            for a, b, c, d in parts
        )

    return tuple(filter(is_affine, floating_names(values)))


def _form(value: Any) -> Any:
    """Return what of an argument may decide the structure: numbers do, and how many dimensions tensors have."""
    if isinstance(value, tuple):
        return [_form(item) for item in value]
    if hasattr(value, "shape"):
        return len(value.shape)
    # An object of the user's may not be printable.
    return value if value is None or isinstance(value, (int, float, str)) else id(value)


def _measured(run: Run, values: Mapping[str, Any]) -> tuple[bool, ...]:
    before = [result.detach() for result in run(copied(values))]
    found = [True] * len(before)
    draws = Draws(_SEED)
    floating = floating_names(values)
    for name in floating or integer_names(values):
        # No others are known of integers than their own.
        other = mapped({name: values[name]}, draws.normal) if floating else {name: _exchanged(values[name])}
        after = run({**copied(values), **copied(other)})
        for _ in range(_TRIES):
            mixed = run({**copied(values), name: _mixed(values[name], other[name], draws)})
            for index, (one, two, either) in enumerate(zip(before, after, mixed, strict=True)):
                found[index] &= one.shape == either.shape == two.shape and _is_one_of(either, one, two)
            if not any(found):
                return tuple(found)
    return tuple(found)


def _exchanged(value: Any) -> Any:
    """Return a tensor, or a list of some, whose numbers have changed places."""
    if isinstance(value, list):
        return [_exchanged(one) for one in value]
    order = torch.randperm(value.numel(), generator=torch.Generator().manual_seed(_SEED)).to(value.device)
    return value.reshape(-1)[order].reshape(value.shape)


def _mixed(one: Any, other: Any, draws: Draws) -> Any:
    """Return a tensor, or a list of some, with half of the elements of one and half of another."""
    if isinstance(one, list):
        return [_mixed(first, second, draws) for first, second in zip(one, other, strict=True)]
    return torch.where(draws.uniform(one) < 0.5, one, other)


def _is_one_of(either: Tensor, one: Tensor, other: Tensor) -> bool:
    return bool(((either == one) | (either == other) | either.isnan()).all())
