"""Compares each competitor's results with the reference's, before and after the timing.

Small inputs have the bounds of `opsmith check`, element by element. For large ones that would take longer than the timing:
there the bound is a multiple of the reference's own largest error in the same element type. The proof of an operator is
`opsmith check`; this finds a competitor that computes something else, and a kernel that is wrong at the timed size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.benchmark.calls import gradients
from opsmith.benchmark.competitors import Phase, visible_outputs
from opsmith.benchmark.workload import Workload
from opsmith.subject.oracle import Expected, compare, expect, upcast
from opsmith.subject.subject import Subject

__all__ = ["Judge"]

_FEW_ELEMENTS = 1 << 18
# How many times as far off as the reference in the same type a competitor may be, and how many roundings of the largest
# result in float32 besides, which sums are made in: two orders of a sum differ by so much.
_OF_OWN, _OF_SUMS = 8.0, 16.0


class Judge:
    """What is expected of a call with some inputs at a phase; made once, asked for each competitor."""

    def __init__(self, subject: Subject, workload: Workload, phase: Phase, values: Mapping[str, Any]) -> None:
        self._subject, self._workload, self._phase, self._values = subject, workload, phase, values
        self._is_small = workload.case.elements <= _FEW_ELEMENTS
        self._bounds: Expected | None = None
        self._exact: list[Tensor] = []
        self._own: list[Tensor] = []

    def learn(self) -> None:
        """Compute what is expected; raises what the reference raises."""
        with torch.no_grad():
            if self._is_small:
                self._bounds = expect(
                    self._subject, self._workload.case, self._values, self._run, about=("timed", self._phase)
                ).completed()
                return
            self._own = self._run(_copied(self._values))
            self._exact = self._run(upcast(self._values))

    def disagreement(self, found: list[Tensor]) -> str | None:
        """Return how results differ from what is expected, or None."""
        if self._bounds is not None:
            wrong = compare(found, self._bounds)
            return None if wrong is None else str(wrong)
        shapes, wanted = ([tuple(tensor.shape) for tensor in results] for results in (found, self._exact))
        if shapes != wanted:
            return f"the results have the shapes {shapes}, the reference's have {wanted}"
        dtypes, usual = ([tensor.dtype for tensor in results] for results in (found, self._own))
        if dtypes != usual:
            return f"the results are {_listed(dtypes)}, the reference's are {_listed(usual)}"
        for index, (one, exact, own) in enumerate(zip(found, self._exact, self._own, strict=True)):
            if text := _differs(one.detach(), exact.detach(), own.detach()):
                return f"output {index} {text}"
        return None

    def _run(self, values: Mapping[str, Any]) -> list[Tensor]:
        if self._phase != "forward":
            return gradients(self._subject, visible_outputs(self._subject), values)
        return self._subject.results(visible_outputs(self._subject), values)


def _listed(dtypes: Sequence[torch.dtype]) -> str:
    return ", ".join(map(str, dtypes))


def _differs(found: Tensor, exact: Tensor, own: Tensor) -> str | None:
    if found.numel() == 0:
        return None
    if not found.dtype.is_floating_point:
        wrong = int(((found != exact) & (found != own)).sum())
        return f"differs from the reference's in {wrong} of {found.numel()} elements" if wrong else None
    strange = int(((found.isnan() != exact.isnan()) & (found.isnan() != own.isnan())).sum())
    if strange:
        return f"is NaN where the reference is not, or the reverse, in {strange} of {found.numel()} elements"
    error, own_error = _largest(found, exact), _largest(own, exact)
    scale = float(exact.nan_to_num(0.0, 0.0, 0.0).abs().max())
    eps = torch.finfo(own.dtype).eps
    allowed = _OF_OWN * own_error + (eps + _OF_SUMS * min(eps, torch.finfo(torch.float32).eps)) * scale
    return None if error <= allowed else f"is off by up to {error:.3g}, where {allowed:.3g} is allowed"


def _largest(one: Tensor, exact: Tensor) -> float:
    """Return the largest distance between two tensors; where both are the same infinity or no number, there is none."""
    wide = one.to(exact.dtype)
    return float(torch.where((wide == exact) | wide.isnan() | exact.isnan(), 0.0, (wide - exact).abs()).max())


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.clone()
        return [copy(item) for item in value] if isinstance(value, list) else value

    return {name: copy(value) for name, value in values.items()}
