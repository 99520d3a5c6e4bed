"""Functions of a batch as CUDA graphs, and batches of fixed places in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from opsmith_detection.structures import Batch, Targets

__all__ = ["Graph", "copy_batch", "like_batch", "release_graphs", "shapes_of", "tensors_of"]

Result = TypeVar("Result")


class Graph(Generic[Result]):
    """A function of batches of one shape, which is a CUDA graph with inputs of its own after `eager` calls.

    A result is overwritten by the next call, and by other graphs of the same pool.
    """

    def __init__(self, function: Callable[[Batch], Result], eager: int) -> None:
        self._function, self._eager = function, eager
        self._captured: tuple[torch.cuda.CUDAGraph, Batch, Result] | None = None
        _graphs.add(self)

    def __call__(self, batch: Batch, stream: torch.cuda.Stream, pool: Any) -> Result:
        """Call it on `stream`, which is the current one; `pool` is where the graph has its memory."""
        if self._eager > 0:
            self._eager -= 1
            return self._function(batch)
        if self._captured is None:
            graph, inputs = torch.cuda.CUDAGraph(), like_batch(batch)
            # Threads of the loader and of NCCL call CUDA meanwhile.
            with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                result = self._function(inputs)
            self._captured = graph, inputs, result
        graph, inputs, result = self._captured
        copy_batch(inputs, batch)
        graph.replay()
        return result

    def release(self) -> None:
        """Free the graph; the next call captures anew."""
        if self._captured is not None:
            self._captured[0].reset()
            self._captured = None


_graphs: weakref.WeakSet[Graph[Any]] = weakref.WeakSet()


def release_graphs() -> None:
    """Free all graphs. NCCL ends a communicator only when no graph is left that it has a part in."""
    for graph in list(_graphs):
        graph.release()


def tensors_of(batch: Batch) -> list[Tensor]:
    """Return the tensors of a batch that are there."""
    targets = () if batch.targets is None else batch.targets
    return [tensor for tensor in (*batch[:3], *targets) if tensor is not None]


def shapes_of(batch: Batch) -> tuple[object, ...]:
    """Return what batches must have in common to share a graph."""
    return tuple((t.shape, t.dtype) for t in tensors_of(batch))


def like_batch(batch: Batch, device: torch.device | None = None) -> Batch:
    """Return a batch of the same shapes with undefined values."""

    def like(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device=device)

    targets = batch.targets
    if targets is not None:
        masks = None if targets.masks is None else like(targets.masks)
        targets = Targets(like(targets.boxes), like(targets.labels), masks)
    return Batch(like(batch.images), like(batch.sizes), like(batch.ids), targets)


def copy_batch(to: Batch, batch: Batch) -> None:
    """Copy a batch into another one of the same shapes, without waiting for it."""
    for target, source in zip(tensors_of(to), tensors_of(batch), strict=True):
        target.copy_(source, non_blocking=True)
