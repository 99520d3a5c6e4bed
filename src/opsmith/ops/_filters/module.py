"""Defines the base of the modules that own filters."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["FilterModule"]


class FilterModule(nn.Module):
    """A module whose buffers are filters: they move with it, and stay float32 when its parameters are cast."""

    def _apply(self, fn: Any, recurse: bool = True) -> FilterModule:
        exact = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, f in exact.items():
            moved = self._buffers[name]
            if f is not None and moved is not None:
                self._buffers[name] = f.to(moved.device)
        return self
