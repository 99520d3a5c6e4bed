"""Measures what roundings do to each element of a reference's results.

Nothing is guessed from the size of the other elements: the reference runs again with inputs off by one unit in the last
place, and in the element type itself. A jump right at an input (a tie, a bound, a kink) is told from a steep slope, since
it stays as high where the step is smaller: exact inputs have an exact answer, and what lies beside them says nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.blame import is_out_of_memory
from opsmith.subject.copies import CORRELATED, cast, coarsest, copied, floating_names, perturbed, upcast
from opsmith.subject.disagreement import apart
from opsmith.subject.stochastic import DOWN, UP, Run, rounded_at_random

__all__ = ["Evidence", "Measurement"]

_MANY_ELEMENTS = 1 << 13
# Seeds of a closer look are others than those of the first.
_CLOSER = 101
# Three samples of four may leave a number where it was, or an index, and some calls have hundreds of such.
_SAMPLES_OF_DISCRETE = 48
# The bits of a float32 that float8 leaves out.
_BELOW_FLOAT8 = (1 << 20) - 1
# A step smaller by this factor changes what is smooth by as much less. In float64 it is larger by as much.
_SMALLER = 64.0
# Roundings inside may be the same for all inputs that are off by one: that of 1 + exp(-10) is. So far off they are others.
_OTHER_NUMBERS = 2.0**-10
# Less than this part of a result, or than these many units in the last place, is not a jump.
_LEAST_JUMP, _LEAST_JUMP_UNITS = 1e-3, 16.0


@dataclass
class Measurement:
    """How far each element of each result moves: what the roundings of inputs do, one by one and all to one side, and
    what the reference's own roundings in the element type do.
    """

    spread: list[Tensor]
    correlated: list[Tensor]
    noise: list[Tensor]


class Evidence:
    """The reference's results for one call, and what changes them. `values` are copied at once: a kernel may write to them.

    `dtype` is the element type under check: that of the arguments, or of the results where no argument is floating, or
    where these are float32 in spite of an argument in half precision. Its noise is measured in `low`, which is float32 where
    it is float64.
    """

    def __init__(self, run: Run, values: Mapping[str, Any], dtype: torch.dtype | None, seed: int) -> None:
        self.run, self.seed = run, seed
        self.wide = upcast(values)
        self.exact = [result.detach() for result in run(copied(self.wide))]
        # Results, by number, that have another size for other numbers.
        self._resized: set[int] = set()
        self.own = self._own(values)
        self._floating = floating_names(values)
        self.dtype = self._dtype_under_check(dtype)
        self.low = torch.float32 if self.dtype is torch.float64 else self.dtype
        elements = sum(value.numel() for value in self.wide.values() if isinstance(value, Tensor))
        # One argument at a time, since the effects of two could cancel; where that takes long, all at once.
        together = [self._floating] if self._floating else []
        self._groups = [[name] for name in self._floating] if elements < _MANY_ELEMENTS else together

    @property
    def device(self) -> torch.device:
        """Where the results are."""
        return self.exact[0].device if self.exact else torch.device("cpu")

    def certain(self) -> Measurement:
        """Return what is known without another run: how far off the reference itself is in the element type."""
        nothing = [torch.zeros((), dtype=torch.float64, device=value.device).expand_as(value) for value in self.exact]
        return Measurement(nothing, list(nothing), self._noise_at_inputs())

    def measured(self, samples: int) -> Measurement:
        """Return the effects of roundings, each of random ones summed over some samples."""
        found = Measurement(self._zeros(), self._zeros(), self._zeros())
        for names in self._groups:
            for sample in range(samples):
                self._add_spread(found.spread, names, self.seed + sample)
            self._add_spread(found.correlated, names, CORRELATED)
        self._add_noise(found.noise, samples)
        return found

    def measured_closely(self, first: Measurement, samples: int) -> Measurement:
        """Return larger effects where more samples find them: of a sum over two, twice the root of the mean square."""
        many = _SAMPLES_OF_DISCRETE if any(map(_is_discrete, self.exact)) else samples
        return Measurement(
            self._raised(first.spread, samples, self._random_spread),
            first.correlated,
            self._raised(self._raised(first.noise, samples, self._low_noise), many, self._moved_at_random),
        )

    def _raised(self, first: list[Tensor], samples: int, measure: Callable[[int], list[Tensor]]) -> list[Tensor]:
        squares, counts = self._zeros(), self._zeros()
        # What the reference does not take in another form is not evidence.
        with contextlib.suppress(Exception):
            for sample in range(samples):
                found = measure(self.seed + _CLOSER + sample)
                unknown = self._undefined_by_roundings(found)
                for sums, count, distance, outside in zip(squares, counts, found, unknown, strict=True):
                    sums.add_(torch.where(outside, 0.0, distance.square()))
                    count.add_(~outside)
        usual = [2 * (one / count.clamp_(min=1)).sqrt() for one, count in zip(squares, counts, strict=True)]
        return [torch.maximum(one, other) for one, other in zip(first, usual, strict=True)]

    def _outside(self, distances: list[Tensor]) -> list[Tensor]:
        """Return where a result that is finite is not so for other roundings: how far it moves there is not known.

        A result that has another size there is left out.
        """
        pairs = enumerate(zip(distances, self.exact, strict=True))
        return [one.isinf() & exact.isfinite() & (index not in self._resized) for index, (one, exact) in pairs]

    def _undefined_by_roundings(self, distances: list[Tensor]) -> list[Tensor]:
        """Return the same, and keep that the reference's own roundings do so, which a kernel's may do too."""
        found = self._outside(distances)
        for mask, outside in zip(self.undefined, found, strict=True):
            mask.logical_or_(outside)
        return found

    def _random_spread(self, seed: int) -> list[Tensor]:
        found = self._zeros()
        for names in self._groups:
            self._add_spread(found, names, seed)
        return found

    def _low_noise(self, seed: int) -> list[Tensor]:
        found = self._zeros()
        self._add_low_noise(found, seed, _OTHER_NUMBERS if seed % 2 else None)
        return self._without_jumps(found)

    def _dtype_under_check(self, of_arguments: torch.dtype | None) -> torch.dtype:
        of_results = coarsest(self.own if self.own is not None else self.exact)
        if of_arguments is None:
            # Integers of integers may be made by way of floating numbers, whose roundings decide. Numbers of a byte have no
            # arithmetic of their own.
            return of_results or torch.float32
        return torch.float32 if of_results is torch.float32 and of_arguments.itemsize < 4 else of_arguments

    @cached_property
    def undefined(self) -> list[Tensor]:
        """Where roundings inside leave a domain, as of acos of a quotient of equal numbers: what is not finite is right too.

        Complete once a closer look is taken.
        """
        return [torch.zeros_like(value, dtype=torch.bool) for value in self.exact]

    @cached_property
    def jumps(self) -> list[Tensor]:
        """Where a result jumps right at the inputs; complete once the spread is measured."""
        return [torch.zeros_like(value, dtype=torch.bool) for value in self.exact]

    def _zeros(self) -> list[Tensor]:
        return [torch.zeros_like(value, dtype=torch.float64) for value in self.exact]

    def _own(self, values: Mapping[str, Any]) -> list[Tensor] | None:
        try:
            return [result.detach() for result in self.run(copied(values))]
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            return None  # "not implemented for 'Half'"

    def _add_spread(self, total: list[Tensor], names: list[str], seed: int) -> None:
        eps = self._step(seed)
        moved = self._distance_inside(names, seed)
        part, least_of_all = max(_LEAST_JUMP, _LEAST_JUMP_UNITS * eps), 64 * torch.finfo(torch.float32).smallest_normal
        least = [(part * value.to(torch.float64).abs()).clamp(min=least_of_all) for value in self.exact]
        may_jump = [distance.isfinite() & (distance > most) for distance, most in zip(moved, least, strict=True)]
        if any(bool(one.any()) for one in may_jump):
            self._take_jumps_out(moved, may_jump, names, seed)
        for sums, distance in zip(total, moved, strict=True):
            sums.add_(distance)

    def _distance_inside(self, names: list[str], seed: int) -> list[Tensor]:
        """Return how far results move where inputs are off by a rounding: by another one, where one is out of the domain.

        By none, where the reference raises for all: it may state that its inputs are in order.
        """
        eps = self._step(seed)
        moved: list[Tensor] | None = None
        # To the other side, then all inputs towards zero, and away from it: a domain may end at one side.
        for step, direction in ((eps, seed), (-eps, seed), (-eps, CORRELATED), (eps, CORRELATED)):
            if (other := self._distance_at(names, step, direction)) is None:
                continue
            if moved is not None:
                other = list(map(torch.where, self._outside(moved), other, moved))
            moved = other
            if not any(bool(one.any()) for one in self._outside(moved)):
                break
        return moved or self._zeros()

    def _distance_at(self, names: list[str], step: float, seed: int) -> list[Tensor] | None:
        """Return how far results move where some inputs are off by a step; None where the reference raises."""
        try:
            return self._distance(self.run(perturbed(self.wide, names, step, seed)))
        except Exception:
            return None

    def _step(self, seed: int) -> float:
        """Return by how much inputs are off: one unit in the last place; together, of the type that sums are made in."""
        eps = torch.finfo(self.dtype).eps
        return min(eps, torch.finfo(torch.float32).eps) if seed == CORRELATED else eps

    def _take_jumps_out(self, moved: list[Tensor], may_jump: list[Tensor], names: list[str], seed: int) -> None:
        eps = self._step(seed)
        is_widest = self.dtype is torch.float64
        step = eps * _SMALLER if is_widest else eps / _SMALLER
        if (other := self._distance_at(names, step, seed)) is None:
            return
        for index, (one, two) in enumerate(zip(moved, other, strict=True)):
            smaller, larger = (one, two) if is_widest else (two, one)
            jump = may_jump[index] & (smaller > larger / 8)
            one.masked_fill_(jump, 0.0)
            self.jumps[index] |= jump

    def _add_noise(self, total: list[Tensor], samples: int) -> None:
        if self.own is None or not self._floating:
            return
        for sums, distance in zip(total, self._noise_at_inputs(), strict=True):
            sums.add_(distance)
        with contextlib.suppress(Exception):
            one = self._zeros()
            for sample in range(samples if self.dtype is not self.low else samples - 1):
                self._add_low_noise(one, self.seed + 51 + sample)
            for sums, distance in zip(total, self._without_jumps(one), strict=True):
                sums.add_(distance)

    def _noise_at_inputs(self) -> list[Tensor]:
        if self.own is None or self.dtype is not self.low:
            return self._zeros()
        return self._of_floating(self._known(self._distance(self.own)))

    def _add_low_noise(self, total: list[Tensor], seed: int, step: float | None = None) -> None:
        """Add how far off the reference is in the element type, at inputs beside the given ones, by a rounding or a step."""
        if self.own is None or not self._floating:
            return
        other = perturbed(cast(self.wide, self.low), self._floating, step or torch.finfo(self.low).eps, seed)
        ratio = torch.finfo(self.dtype).eps / torch.finfo(self.low).eps
        pairs = zip(self.run(upcast(other)), self.run(other), strict=True)
        distances = self._known([apart(found, exact) * ratio for exact, found in pairs])
        for sums, distance in zip(total, distances, strict=True):
            # Overflow in float32 says nothing of float64.
            sums.add_(distance if self.dtype is self.low else torch.where(distance.isfinite(), distance, 0.0))

    def _known(self, distances: list[Tensor]) -> list[Tensor]:
        """Return how far off a reference is in the element type, without where it is not finite by that.

        Of half precision that says that its range is left, where a kernel may have any number; and nothing of float64.
        """
        if self.dtype is not torch.float32:
            return distances
        outside = self._undefined_by_roundings(distances)
        return [torch.where(mask, 0.0, one) for mask, one in zip(outside, distances, strict=True)]

    def _without_jumps(self, noise: list[Tensor]) -> list[Tensor]:
        found = [torch.where(jump, 0.0, one) for one, jump in zip(noise, self.jumps, strict=True)]
        return self._of_floating(found)

    def _of_floating(self, noise: list[Tensor]) -> list[Tensor]:
        """Return noise without that of discrete results, which jump wherever they change."""
        pairs = zip(noise, self.exact, strict=True)
        return [one if value.dtype.is_floating_point else torch.zeros_like(one) for one, value in pairs]

    def _moved_at_random(self, seed: int) -> list[Tensor]:
        """Return what roundings of the intermediate results do; sums belong in float32 in half precision too."""
        inside = self.dtype if self.dtype is torch.float64 else torch.float32
        directed = {self.seed + _CLOSER: UP, self.seed + _CLOSER + 1: DOWN}
        return self._distance(rounded_at_random(self.run, self.wide, inside, directed.get(seed, seed)))

    def _distance(self, results: list[Tensor]) -> list[Tensor]:
        self._resized |= {
            i for i, (one, exact) in enumerate(zip(results, self.exact, strict=True)) if one.shape != exact.shape
        }
        return [apart(one, exact) for one, exact in zip(results, self.exact, strict=True)]


def _is_discrete(value: Tensor) -> bool:
    """Whether a result has integers, or numbers of no more digits than float8's."""
    if value.dtype is torch.float32:
        return not bool((value.contiguous().view(torch.int32) & _BELOW_FLOAT8).any())
    return not value.dtype.is_floating_point
