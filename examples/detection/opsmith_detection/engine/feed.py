"""Brings a loader's batches to the device, one ahead of the step that runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch

from opsmith_detection.engine.graphs import copy_batch, like_batch, shapes_of
from opsmith_detection.structures import Batch

__all__ = ["Feed", "Source"]


class Source(Protocol):
    """What a training takes its batches from, such as `data.loader.Loader`."""

    def __iter__(self) -> Iterator[Batch]:
        """Give batches on the CPU, in pinned memory where there is a GPU, without an end."""

    def state(self) -> dict[str, Any]:
        """Say which batch comes next."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the batch that `state` says."""


class Feed:
    """An iterator of batches on a device.

    On a GPU each shape has two buffers, which a stream of its own fills in turn: the copy of a batch runs beside the step
    on the one before it. A batch is valid until the next but one is asked for. Nothing here makes the host wait.
    """

    def __init__(self, source: Source, device: torch.device) -> None:
        self._source, self._device = source, device
        self._batches = iter(source)
        self._state = source.state()
        self._cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._cuda else None
        self._buffers: dict[object, list[tuple[Batch, torch.cuda.Event]]] = {}
        self._ahead: tuple[Batch, torch.cuda.Event, dict[str, Any]] | None = None
        self._in_use: torch.cuda.Event | None = None

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._stream is None:
            batch = next(self._batches)
            self._state = self._source.state()
            return batch
        current = torch.cuda.current_stream(self._device)
        if self._in_use is not None:
            self._in_use.record(current)  # all work on the last batch is queued
        batch, used, self._state = self._ahead or self._fetch()
        current.wait_stream(self._stream)
        self._in_use = used
        self._ahead = self._fetch()
        return batch

    def state(self) -> dict[str, Any]:
        """Return the source's state behind the last batch that was given out."""
        return self._state

    def _fetch(self) -> tuple[Batch, torch.cuda.Event, dict[str, Any]]:
        assert self._stream is not None
        batch = next(self._batches)
        key = shapes_of(batch)
        pair = self._buffers.get(key)
        if pair is None:
            pair = self._buffers[key] = [(like_batch(batch, self._device), torch.cuda.Event()) for _ in range(2)]
            self._stream.wait_stream(torch.cuda.current_stream(self._device))  # what used this memory before
        pair.reverse()
        buffer, used = pair[0]
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(used)
            copy_batch(buffer, batch)
        return buffer, used, self._source.state()
