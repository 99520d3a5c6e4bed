"""Runs a model on batches without targets: a CUDA graph for each shape, as in training."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from opsmith_detection.config import Config
from opsmith_detection.engine.graphs import Graph, copy_batch, like_batch, shapes_of
from opsmith_detection.engine.step import autocast
from opsmith_detection.models.rcnn import GeneralizedRCNN
from opsmith_detection.structures import Batch, Detections

__all__ = ["Predictor"]

_EAGER_CALLS = 2  # before a shape is captured


class Predictor:
    """A model in inference.

    Args:
        graph: whether to capture; sharded models (FSDP) are not.
        stream: that a GPU works on.
        pool: of graphs on this stream that never run at the same time as these, to share their memory.
    """

    def __init__(
        self,
        model: nn.Module,
        config: Config,
        device: torch.device,
        *,
        graph: bool,
        stream: torch.cuda.Stream | None = None,
        pool: object = None,
    ) -> None:
        self._model, self._precision, self._device = model, config.solver.precision, device
        if device.type == "cpu" and isinstance(model, GeneralizedRCNN):
            model.skips_padding = True
        graphed = graph and device.type == "cuda"
        self._stream = (stream or torch.cuda.Stream(device)) if graphed else None
        self._pool = pool if pool is not None or not graphed else torch.cuda.graph_pool_handle()
        self._graphs: dict[object, Graph[Detections]] = {}

    def __call__(self, batch: Batch) -> Detections:
        """Return the detections of a batch, which may be on the CPU. They are valid until the next call."""
        batch = batch._replace(targets=None)
        if self._device.type == "cuda":
            moved = like_batch(batch, self._device)
            copy_batch(moved, batch)
            batch = moved
        if self._stream is None:
            return self._compute(batch)
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            shapes = shapes_of(batch)
            if shapes not in self._graphs:
                self._graphs[shapes] = Graph(self._compute, _EAGER_CALLS)
            detections = self._graphs[shapes](batch, self._stream, self._pool)
        current.wait_stream(self._stream)
        return detections

    def warm(self, batches: Iterable[Batch]) -> None:
        """Build operators and capture graphs for these shapes, so that the next call is fast."""
        for batch in batches:
            for _ in range(_EAGER_CALLS + 1):
                self(batch)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    @torch.no_grad()
    def _compute(self, batch: Batch) -> Detections:
        with autocast(self._device, self._precision):
            detections: Detections = self._model(batch.images, batch.sizes)
        return detections
