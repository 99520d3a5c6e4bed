"""The functions as modules that own their filter."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from opsmith.ops._filters.module import FilterModule
from opsmith.ops.upfirdn2d.functions import downsample2d, filter2d, setup_filter, upsample2d

__all__ = ["Downsample2d", "Filter2d", "Upsample2d"]


class _Filtered(FilterModule):
    """A module with one filter."""

    f: Tensor

    def __init__(self, f: Any, *, gain: float = 1) -> None:
        super().__init__()
        self.register_buffer("f", setup_filter(f))
        self.gain = gain

    def extra_repr(self) -> str:
        """What print(module) shows in the parentheses."""
        return f"{' x '.join(map(str, self.f.shape))} taps"


class Filter2d(_Filtered):
    """`filter2d` with a filter of its own; `f` is whatever `setup_filter` takes."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the filtered images, of the same size."""
        return filter2d(x, self.f, gain=self.gain)


class Upsample2d(_Filtered):
    """`upsample2d` with a filter of its own, by `up` along both axes."""

    def __init__(self, f: Any, up: int = 2, *, gain: float = 1) -> None:
        super().__init__(f, gain=gain)
        self.up = up

    def forward(self, x: Tensor) -> Tensor:
        """Return the images at `up` times their size."""
        return upsample2d(x, self.f, self.up, gain=self.gain)


class Downsample2d(_Filtered):
    """`downsample2d` with a filter of its own, by `down` along both axes."""

    def __init__(self, f: Any, down: int = 2, *, gain: float = 1) -> None:
        super().__init__(f, gain=gain)
        self.down = down

    def forward(self, x: Tensor) -> Tensor:
        """Return the images at one `down`-th of their size."""
        return downsample2d(x, self.f, self.down, gain=self.gain)
