"""Brings a loader's batches to the device, beside the step that runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from opsmith_detection.engine.graphs import copy_batch, like_batch, shapes_of
from opsmith_detection.structures import Batch

__all__ = ["Feed"]


class Feed:
    """An iterator of batches on a device.

    On a GPU each shape has two buffers, which a stream of its own fills in turn. The host is ahead of the GPU: the copy of
    a batch, from pinned memory, runs beside the step on the one before it. A batch is valid until the next but one of its
    shape is asked for.
    """

    def __init__(self, source: Iterable[Batch], device: torch.device) -> None:
        self._batches, self._device = iter(source), device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._buffers: dict[object, list[_Buffer]] = {}
        self._last: _Buffer | None = None

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = next(self._batches)
        if self._stream is None:
            return batch
        current = torch.cuda.current_stream(self._device)
        if self._last is not None:
            self._last.used.record(current)  # all work on the last batch is queued
        pair = self._buffers.get(shapes_of(batch))
        if pair is None:
            pair = [_Buffer(like_batch(batch, self._device), torch.cuda.Event()) for _ in range(2)]
            self._buffers[shapes_of(batch)] = pair
            self._stream.wait_stream(current)  # what used this memory before
        pair.reverse()
        self._last = pair[0]
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(self._last.used)
            copy_batch(self._last.batch, batch)
        current.wait_stream(self._stream)
        return self._last.batch


class _Buffer(NamedTuple):
    """A place for a batch on a GPU, and an event behind the work on it."""

    batch: Batch
    used: torch.cuda.Event
