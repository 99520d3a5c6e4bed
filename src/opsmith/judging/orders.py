"""Watches how a function of PyTorch's sorts: what it sorts, and what it gives where equal elements come in another order.

PyTorch leaves open in which order sort, argsort and topk return equal elements, unless a stable sort is asked for, and which
of them kthvalue, median and mode name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.dispatch import DispatchMode

__all__ = ["EqualInOrder", "Sorted"]

_ATEN = torch.ops.aten
_SORT, _STABLE, _TOPK = _ATEN.sort.default, _ATEN.sort.stable, _ATEN.topk.default
_ONE_OF_EQUAL = frozenset((_ATEN.kthvalue.default, _ATEN.median.dim, _ATEN.nanmedian.dim, _ATEN.mode.default))


class EqualInOrder(DispatchMode):
    """Makes every sort, argsort's and topk's too, return equal elements in one order.

    `arrange` permutes the numbers of the places along a dimension: what comes first there comes first among equal ones.
    """

    def __init__(self, arrange: Callable[[Tensor], Tensor] = lambda places: places) -> None:
        super().__init__()
        self._arrange = arrange

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _sort_of(func, args, kwargs or {})
        if given is None:
            return func(*args, **(kwargs or {}))
        value, dim = given["self"], given["dim"]
        places = self._arrange(torch.arange(value.shape[dim], device=value.device))
        descending = given["largest"] if func is _TOPK else given["descending"]
        values, indices = _STABLE(value.index_select(dim, places), stable=True, dim=dim, descending=descending)
        found = values, places[indices]
        return tuple(one.narrow(dim, 0, given["k"]) for one in found) if func is _TOPK else found


class Sorted(DispatchMode):
    """Keeps what is sorted in no order that PyTorch promises, or of what one of several equal elements is named.

    `names_one` says whether the latter is done: no order is known there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []
        self.names_one = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names_one |= func in _ONE_OF_EQUAL
        given = {"self": args[0]} if func in _ONE_OF_EQUAL else _sort_of(func, args, kwargs or {})
        if given is not None:
            self.found.append(given["self"].clone())
        return func(*args, **(kwargs or {}))


def _sort_of(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of an operator that sorts, by name, unless it is stable or there is nothing to sort."""
    if func not in (_SORT, _STABLE, _TOPK):
        return None
    declared = func._schema.arguments
    given = {one.name: one.default_value for one in declared if one.has_default_value()}
    given |= {one.name: value for one, value in zip(declared, args, strict=False)} | kwargs
    return None if given.get("stable") or not given["self"].dim() else given
