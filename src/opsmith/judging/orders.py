"""Watches how a function of PyTorch's sorts: what it sorts, and what it gives where equal elements stay in order.

PyTorch leaves open in which order sort, argsort and topk return equal elements, unless a stable sort is asked for, and which
of them kthvalue, median and mode name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.dispatch import DispatchMode

__all__ = ["StableOrder", "with_sorted"]

_ATEN = torch.ops.aten
_SORT, _STABLE, _TOPK = _ATEN.sort.default, _ATEN.sort.stable, _ATEN.topk.default
_ONE_OF_EQUAL = frozenset((_ATEN.kthvalue.default, _ATEN.median.dim, _ATEN.nanmedian.dim, _ATEN.mode.default))


class StableOrder(DispatchMode):
    """Makes every sort stable, argsort's too, and topk take the first of equal elements."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _sort_of(func, args, kwargs or {})
        if given is None:
            return func(*args, **(kwargs or {}))
        descending = given["largest"] if func is _TOPK else given["descending"]
        found = _STABLE(given["self"], stable=True, dim=given["dim"], descending=descending)
        return tuple(one.narrow(given["dim"], 0, given["k"]) for one in found) if func is _TOPK else found


class _Sorted(DispatchMode):
    """Keeps what is sorted in no order that PyTorch promises."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {"self": args[0]} if func in _ONE_OF_EQUAL else _sort_of(func, args, kwargs or {})
        if given is not None:
            self.found.append(given["self"].clone())
        return func(*args, **(kwargs or {}))


def with_sorted(run: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
    """Return what a function returns, and the tensors that it sorts, or takes the largest elements of or one of several.

    Those of a stable sort, whose equal elements have an order, are not among them.
    """
    mode = _Sorted()
    with torch.no_grad(), mode:
        found = run()
    return found, mode.found


def _sort_of(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of an operator that sorts, by name, unless it is stable or there is nothing to sort."""
    if func not in (_SORT, _STABLE, _TOPK):
        return None
    declared = func._schema.arguments
    given = {one.name: one.default_value for one in declared if one.has_default_value()}
    given |= {one.name: value for one, value in zip(declared, args, strict=False)} | kwargs
    return None if given.get("stable") or not given["self"].dim() else given
