"""Runs a function of PyTorch's in which equal elements stay in order, wherever sort and topk leave that open."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from opsmith.subject.dispatch import DispatchMode

__all__ = ["StableOrder"]

_SORT, _STABLE, _TOPK = torch.ops.aten.sort.default, torch.ops.aten.sort.stable, torch.ops.aten.topk.default


class StableOrder(DispatchMode):
    """Makes every sort stable, argsort's too, and topk take the first of equal elements."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _with_names(func, args, kwargs or {}) if func in (_SORT, _STABLE, _TOPK) else {}
        if func in (_SORT, _STABLE):
            return _sorted(given["self"], given["dim"], given["descending"])
        if func is _TOPK and given["self"].dim():
            values, indices = _sorted(given["self"], given["dim"], given["largest"])
            return values.narrow(given["dim"], 0, given["k"]), indices.narrow(given["dim"], 0, given["k"])
        return func(*args, **(kwargs or {}))


def _sorted(value: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    return _STABLE(value, stable=True, dim=dim, descending=descending)  # type: ignore[no-any-return]


def _with_names(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments of an operator by name."""
    declared = func._schema.arguments
    defaults = {one.name: one.default_value for one in declared if one.has_default_value()}
    return defaults | {one.name: value for one, value in zip(declared, args, strict=False)} | kwargs
