"""Computes the expected results of a call, and how far off a kernel may be.

The reference runs in float64 on the same numbers. The effect of one rounding on each element of the result is measured,
not guessed (see `evidence`), and a kernel may be off by a small multiple of it, of how far the reference itself is off in
the element type, and of the rounding of the result. In half precision the multiple does not grow with the length of a
sum, because sums belong in float32 there; in float32 and float64 it does (Higham, Accuracy and Stability of Numerical
Algorithms, ch. 4: the error of a sum of n terms in order is at most n roundings, and some sqrt(n) where these go both
ways).

A few runs show little of an effect that is small by chance. What is off by more is looked at more closely, with more of
them, before it counts as wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.accepted_types import in_accepted_types
from opsmith.subject.blame import blamed_on_reference
from opsmith.subject.case import Case
from opsmith.subject.copies import upcast, working_dtype
from opsmith.subject.disagreement import Disagreement, Expected, Limits, compare
from opsmith.subject.evidence import Evidence, Measurement
from opsmith.subject.excuses import (
    allow_limits,
    allow_nan_of_padding,
    allow_overflow,
    allow_what_is_not_finite,
    lost_digits,
    undefined_by_order,
)
from opsmith.subject.indexing import ask_the_cpu_first
from opsmith.subject.stochastic import Run
from opsmith.subject.structure import affine_arguments, pointwise_results
from opsmith.subject.subject import Subject
from opsmith.subject.tolerance import (
    EXTREME,
    allowed_errors,
    evened,
    floor_of_sums,
    reduction_length,
    usual_scale,
    without_known_digits,
)
from opsmith.subject.values import SPECIAL_VALUES

__all__ = ["Disagreement", "Expected", "Limits", "compare", "evened", "expect", "upcast"]

_OVERFLOWING = frozenset({"huge", "loud"})
_WITH_INFINITIES = frozenset(SPECIAL_VALUES) - {"nan"}
# In float64 ten digits of extreme numbers are asked for: a reference has thresholds above which it leaves terms out
# (PyTorch's softplus of more than 20 is its argument), and a kernel without them is better.
_DIGITS_OF_EXTREMES = 2.0**-32
_SAMPLES = 2
_SAMPLES_OF_A_CLOSER_LOOK = 4


def expect(
    subject: Subject,
    case: Case,
    values: Mapping[str, Any],
    run: Run | None = None,
    *,
    terms: int | None = None,
    about: Hashable = None,
    is_lenient: bool = False,
) -> Expected:
    """Return what a call should give; `values` are its arguments, which are not changed.

    `run` computes the results from arguments, by default the subject's reference; `about` says what it computes, and
    `terms` how many terms its sums may have, by default those of the operator's. With `is_lenient`, where elements depend
    on each other, those of extreme numbers may be off by roundings of what is usual among them, as others may. Raises
    whatever the reference raises; `is_of_reference` tells that from a defect of the check.
    """
    ask_the_cpu_first(subject, case, values)
    paired = subject.paired if run is None else ()
    run = blamed_on_reference(run or (lambda given: subject.results(subject.reference, given)))
    run = in_accepted_types(subject, run, values)
    evidence = Evidence(run, values, working_dtype(values), case.elements + 17)
    own = None if evidence.own is None else tuple(evidence.own)
    bounds = _Bounds(subject, case, run, evidence, terms, about, paired, is_lenient)
    return Expected(tuple(evidence.exact), own, bounds.certain(), bounds.measured)


class _Bounds:
    """How far off each element of a call's results may be, from the evidence that there is."""

    def __init__(
        self,
        subject: Subject,
        case: Case,
        run: Run,
        evidence: Evidence,
        terms: int | None,
        about: Hashable,
        paired: Collection[int],
        is_lenient: bool,
    ) -> None:
        self._case, self._run, self._evidence, self._terms, self._paired = case, run, evidence, terms, paired
        self._subject, self._about, self._is_lenient = subject, about, is_lenient
        self._kinds = {recipe.values for recipe in case.tensors().values()}
        known = pointwise_results(subject, case, run, about, evidence.device)
        self._pointwise = known if len(known) == len(evidence.exact) else (False,) * len(evidence.exact)
        length = reduction_length(subject, case, evidence.exact) if terms is None else terms
        self._lengths = [0 if alone else length for alone in self._pointwise]
        is_extreme = evidence.dtype is torch.float64 and self._kinds & EXTREME
        self._digits = _DIGITS_OF_EXTREMES if is_extreme else 0.0

    def certain(self) -> tuple[Tensor, ...]:
        """Return what is allowed whatever roundings do, without another run of the reference."""
        least = self._evidence.certain()
        self._even_out(least)
        floors = [0.0] * len(self._pointwise) if self._kinds & EXTREME else self._floors
        return self._allowed(least, floors)

    def measured(self) -> Limits:
        """Return what is allowed by the measured effects of roundings."""
        evidence, kinds = self._evidence, self._kinds
        measured = evidence.measured(1 if all(self._pointwise) else _SAMPLES)
        padded: tuple[Tensor, ...] = ()
        if kinds & set(SPECIAL_VALUES):
            padded = allow_nan_of_padding(evidence, measured.spread, self._pointwise)
        if kinds & _OVERFLOWING:
            allow_overflow(evidence, measured.spread, self._pointwise)
        if "tiny" in kinds and evidence.dtype is torch.float64:
            allow_what_is_not_finite(evidence.exact, measured.spread, self._pointwise)
        if kinds & _WITH_INFINITIES:
            allow_limits(evidence, measured.spread, self._pointwise)
            affine = affine_arguments(self._subject, self._case, self._run, self._about, evidence.device)
            more = undefined_by_order(evidence, affine, self._pointwise)
            for mask, by_order in zip(evidence.undefined, more, strict=True):
                mask.logical_or_(by_order)
        self._even_out(measured)
        look = functools.cache(functools.partial(self._closely, measured))
        return Limits(self._allowed(measured, self._floors), self._pointwise, look, padded, tuple(evidence.undefined))

    def _closely(self, first: Measurement) -> tuple[Tensor, ...]:
        closer = self._evidence.measured_closely(first, _SAMPLES_OF_A_CLOSER_LOOK)
        noise = lost_digits(self._evidence, closer.noise)
        if self._evens_out:
            # What no rounding has moved is right or wrong; of discrete results nothing was known before.
            pairs = zip(noise, self._evidence.exact, strict=True)
            noise = [
                without_known_digits(one, value)
                if value.dtype.is_floating_point
                else torch.where(one > 0, evened(one), 0.0)
                for one, value in pairs
            ]
        return self._allowed(replace(closer, noise=noise), self._floors)

    @property
    def _evens_out(self) -> bool:
        return not self._kinds & (EXTREME | _WITH_INFINITIES)

    def _even_out(self, measured: Measurement) -> None:
        if self._evens_out:
            measured.noise = [
                one if alone else evened(one) for one, alone in zip(measured.noise, self._pointwise, strict=True)
            ]

    @functools.cached_property
    def _floors(self) -> list[float]:
        of_sums = self._terms is not None or self._is_lenient
        wanted = [_has_floor(self._kinds, of_sums, alone) for alone in self._pointwise]
        return _floors(self._case, self._run, self._evidence, wanted, of_results_alone=self._is_lenient)

    def _allowed(self, measured: Measurement, floors: list[float]) -> tuple[Tensor, ...]:
        evidence = self._evidence
        effects = zip(measured.spread, measured.correlated, measured.noise, strict=True)
        allowed = [
            allowed_errors(value, *effect, evidence.dtype, length).add_(floor).add_(_part_of(value, self._digits))
            for value, effect, length, floor in zip(evidence.exact, effects, self._lengths, floors, strict=True)
        ]
        return tuple(
            _of_modulus(one) if number in self._paired and one.numel() else one for number, one in enumerate(allowed)
        )


def _of_modulus(allowed: Tensor) -> Tensor:
    """Return what both parts of complex numbers may be off: as much as the other part, where that has a limit."""
    return torch.maximum(allowed, torch.where(allowed.isinf(), 0.0, allowed).amax(-1, keepdim=True))


def _has_floor(kinds: set[str], of_sums: bool, alone: bool) -> bool:
    """Whether a result may be off by roundings of what is usual in it.

    Of ordinary numbers few are small, and those by chance. Of extreme ones each has to be right to its own last digits;
    but in a gradient that depends on several elements terms cancel which the inputs do not show, and `of_sums` in others
    where that is to be allowed.
    """
    return not kinds & EXTREME or (of_sums and not alone)


def _floors(
    case: Case, run: Run, evidence: Evidence, wanted: list[bool], *, of_results_alone: bool = False
) -> list[float]:
    """Return what each result may be off: by what is usual in it, and for ordinary inputs unless that is left out."""
    dtype, usual = evidence.dtype, 0.0
    if dtype is None or not any(wanted):
        return [0.0] * len(wanted)
    if not of_results_alone:
        usual = usual_scale(case, run, dtype, evidence.device)
        # Seven digits of extreme numbers.
        is_extreme = any(recipe.values in EXTREME for recipe in case.tensors().values())
        dtype = torch.float32 if dtype is torch.float64 and is_extreme else dtype
    return [
        floor_of_sums(value, dtype, usual) if one and value.dtype.is_floating_point else 0.0
        for value, one in zip(evidence.exact, wanted, strict=True)
    ]


def _part_of(value: Tensor, part: float) -> Tensor | float:
    return part * value.abs().nan_to_num(0.0, 0.0, 0.0) if part and value.dtype.is_floating_point else 0.0
