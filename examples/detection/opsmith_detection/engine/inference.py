"""Runs a model on batches without targets: a CUDA graph for each shape, as in training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from opsmith_detection.config import Config
from opsmith_detection.engine.distributed import reshard
from opsmith_detection.engine.graphs import Graphs, copy_batch, like_batch
from opsmith_detection.engine.optimizer import Average
from opsmith_detection.engine.step import autocast
from opsmith_detection.models.rcnn import GeneralizedRCNN
from opsmith_detection.structures import Batch, Detections

__all__ = ["Predictor", "evaluated"]


class Predictor:
    """A model in inference.

    It is captured where `config.graph` says so, unless it is sharded (FSDP).

    Args:
        stream: that a GPU works on.
        pool: of graphs on this stream that never run at the same time as these, to share their memory.
    """

    def __init__(
        self,
        model: nn.Module,
        config: Config,
        device: torch.device,
        stream: torch.cuda.Stream | None = None,
        pool: object = None,
    ) -> None:
        self.config, self._model, self._device = config, model, device
        graph = config.graph and not any(isinstance(parameter, DTensor) for parameter in model.parameters())
        if device.type == "cpu" and isinstance(model, GeneralizedRCNN):
            model.skips_padding = True
        if graph and device.type == "cuda":
            stream = stream or torch.cuda.Stream(device)
        self._run: Graphs[Detections] = Graphs(stream if graph else None, graph=graph, pool=pool)

    def __call__(self, batch: Batch) -> Detections:
        """Return the detections of a batch, which may be on the CPU. They are valid until the next call."""
        batch = batch._replace(targets=None)
        if self._device.type == "cuda":
            moved = like_batch(batch, self._device)
            copy_batch(moved, batch)
            batch = moved
        return self._run(self._compute, batch)

    @torch.no_grad()
    def _compute(self, batch: Batch) -> Detections:
        with autocast(self._device, self.config.solver.precision):
            detections: Detections = self._model(batch.images, batch.sizes)
        return detections


@contextmanager
def evaluated(model: nn.Module, average: Average | None) -> Iterator[None]:
    """Let a model that is trained be as it is evaluated within the context: in inference mode, with averaged weights.

    Processes with batch norm have to `share_statistics` before, or they evaluate different models.
    """
    model.eval()
    try:
        with average.applied() if average is not None else nullcontext():
            reshard(model)
            yield
    finally:
        reshard(model)
        model.train()
