"""Answers the judge where it carries inputs and results through memory of the GPU that both processes have mapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.gpu_area import GpuArea, Passage
from opsmith.judging.inside.calls import Calls
from opsmith.judging.inside.mirror import Mirror

__all__ = ["Staged"]

# Bound before a candidate is imported.
_copy, _contiguous, _reshape, _view, _uint8 = Tensor.copy_, Tensor.contiguous, Tensor.reshape, Tensor.view, torch.uint8


class Staged:
    """The candidate's end of that memory: what comes there is copied at once, and nothing is used where it is."""

    def __init__(self, calls: Calls, open_passage: Callable[[int, int], Passage] = GpuArea) -> None:
        """`open_passage` maps memory of a size by a descriptor."""
        self._calls, self._open_passage = calls, open_passage
        self._passage: Passage | None = None
        self.answers: Mapping[str, Callable[..., dict[str, Any]]] = {
            "share": self.share,
            "place": self.place,
            "put": self.put,
            "back": self.back,
            "carry": self.carry,
        }

    def share(self, descriptor: int, size: int) -> dict[str, Any]:
        """Map the memory; raises where the driver cannot."""
        self._passage = self._open_passage(size, descriptor)
        return {}

    def place(self, size: int, keep: bool, leave: bool) -> dict[str, Any]:
        """Have memory for inputs of that size, see `Mirror.place`; the results of the last batch go."""
        self._calls.forget()
        self._calls.device.place(size, keep, leave)
        return {}

    def put(self, at: int, count: int) -> dict[str, Any]:
        """Take bytes of the inputs, from one of them on."""
        self._mirror.put(self._piece(count), at)
        self._calls.device.wait()
        return {}

    def back(self, at: int, count: int) -> dict[str, Any]:
        """Give bytes of the inputs as they are now."""
        self._mirror.take(self._piece(count), at)
        self._calls.device.wait()
        return {}

    def carry(self, at: int, count: int) -> dict[str, Any]:
        """Give bytes of the results that were described last."""
        piece = self._piece(count)
        for begin, result in self._calls.given:
            size = result.numel() * result.element_size()
            low, high = max(begin, at), min(begin + size, at + count)
            if low < high:
                flat = _view(_reshape(_contiguous(result), (-1,)), _uint8)
                _copy(piece[low - at : high - at], flat[low - begin : high - begin])
        self._calls.device.wait()
        return {}

    @property
    def _mirror(self) -> Mirror:
        held = self._calls.device.held
        assert held is not None
        return held

    def _piece(self, count: int) -> Tensor:
        assert self._passage is not None
        return self._passage.bytes[:count]
