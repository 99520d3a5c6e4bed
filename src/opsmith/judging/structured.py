"""Gives other numbers the structure that a task's own have (see `structure`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.structure import Structure, half_of_zeros, is_narrow, structure_of

__all__ = ["like_example", "with_structure"]


def with_structure(values: Mapping[str, Any], old: Mapping[str, Any], known: Mapping[str, Structure]) -> dict[str, Any]:
    """Return arguments with the structure of their tensors, as far as they are others than `old`."""
    found = {
        name: _structured(value, old[name], known[name]) if value is not old[name] and known.get(name) else value
        for name, value in values.items()
    }
    for name, of_one in known.items():
        for above in of_one.above:
            if found[name] is not old[name] or found[above] is not old[above]:
                pair = found[name], found[above]
                found[name], found[above] = torch.minimum(*pair), torch.maximum(*pair)
    return found


def like_example(value: Tensor, example: Tensor, factor: float) -> Tensor:
    """Return other numbers with the structure that an example has by itself: a definite one is it times a factor."""
    if is_narrow(example):
        return value
    known = structure_of([example])
    if known.is_definite:
        return example * factor
    if (half := half_of_zeros(example)) is not None:
        outside = half(torch.ones_like(example, dtype=torch.bool)).logical_not()
        known = replace(known, fixed=(outside, torch.zeros_like(example)))
    return _structured(value, example, known) if known else value


def _structured(value: Tensor, old: Tensor, known: Structure) -> Tensor:
    if known.is_definite:
        # No other is near: the task's own numbers, as large as the others are.
        factor = float(value.to(torch.float64).abs().mean() / old.to(torch.float64).abs().mean())
        return old * factor
    if known.is_symmetric:
        value = value.triu() + value.triu(1).mT
    if known.fixed is not None:
        places, numbers = known.fixed
        value = torch.where(places.to(value.device), numbers.to(value), value)
    if known.has_zeros:
        value = torch.where(old.to(value.device) == 0, torch.zeros((), dtype=value.dtype, device=value.device), value)
    if known.nearest:
        value = torch.where(value == 0, torch.full((), known.nearest, dtype=value.dtype, device=value.device), value)
    for dim, first in known.repeated:
        value = value.index_select(dim, first.to(value.device))
    if known.unit is not None:
        value = _with_unit_norms(value, old, *known.unit)
    if known.sorted is not None:
        dim, down = known.sorted
        return value.sort(dim, descending=down).values
    for one, other in known.ordered:
        least, most = (choose(value[..., one], value[..., other]) for choose in (torch.minimum, torch.maximum))
        value = value.clone()
        value[..., one], value[..., other] = least, most
    return value


def _with_unit_norms(value: Tensor, old: Tensor, norm: int, dim: int) -> Tensor:
    wide = value.to(torch.float64)
    wide = wide.abs() if norm == 1 else wide
    lengths = torch.linalg.vector_norm(wide, norm, dim=dim, keepdim=True)
    return torch.where(lengths.isfinite() & (lengths > 0), (wide / lengths).to(value.dtype), old.to(value.device))
