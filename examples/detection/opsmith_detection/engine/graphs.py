"""Functions of a batch as CUDA graphs, and batches of fixed places in memory."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from opsmith_detection.structures import Batch, Targets

__all__ = ["EAGER", "Graphs", "copy_batch", "like_batch", "release_graphs", "shapes_of", "tensors_of"]

Result = TypeVar("Result")

EAGER = 2  # calls with each shape before it is captured, which allocate what is kept and choose cuDNN's algorithms


class Graphs(Generic[Result]):
    """Calls functions of batches on a stream: with `graph` as CUDA graphs, one for each shape of a batch.

    A result of a graph is overwritten by the next call, and by other graphs of the same pool.

    Args:
        stream: of a GPU; without one, functions are called as they are.
        pool: of graphs on this stream that never run at the same time as these, to share their memory.
        first: eager calls that synchronise processes, of all shapes together, before anything is captured.
    """

    def __init__(self, stream: torch.cuda.Stream | None, *, graph: bool, pool: object = None, first: int = 0) -> None:
        self.stream, self._graph, self._first = stream, graph and stream is not None, first
        self._calls: Counter[object] = Counter()
        self.pool: Any = torch.cuda.graph_pool_handle() if self._graph and pool is None else pool
        self._captured: dict[object, tuple[torch.cuda.CUDAGraph, Batch, Result]] = {}
        _graphs.add(self)

    def __call__(
        self, function: Callable[[Batch], Result], batch: Batch, name: object = None, synchronises: bool = True
    ) -> Result:
        """Call a function, which has a name if there are several. What was queued before comes first.

        Args:
            synchronises: whether the function has the communication that `first` counts.
        """
        if self.stream is None:
            return function(batch)
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            result = self._replay(function, batch, name, synchronises) if self._graph else function(batch)
        current.wait_stream(self.stream)
        return result

    def _replay(self, function: Callable[[Batch], Result], batch: Batch, name: object, synchronises: bool) -> Result:
        key = (name, shapes_of(batch))
        if self._is_eager(key, synchronises):
            return function(batch)
        if key not in self._captured:
            graph, inputs = torch.cuda.CUDAGraph(), like_batch(batch)
            # Threads of the loader and of NCCL call CUDA meanwhile.
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                result = function(inputs)
            self._captured[key] = graph, inputs, result
        graph, inputs, result = self._captured[key]
        copy_batch(inputs, batch)
        graph.replay()
        return result

    def _is_eager(self, key: object, synchronises: bool) -> bool:
        """Return whether a call comes before the first capture, and count it if so. What `key` names has its own graph."""
        if self._first <= 0 and self._calls[key] >= EAGER:
            return False
        self._first -= synchronises
        self._calls[key] += 1
        return True

    def release(self) -> None:
        """Free the graphs; the next calls capture anew."""
        for graph, _, _ in self._captured.values():
            graph.reset()
        self._captured.clear()


_graphs: weakref.WeakSet[Graphs[Any]] = weakref.WeakSet()


def release_graphs() -> None:
    """Free all graphs. NCCL ends a communicator only when no graph is left that it has a part in."""
    for graphs in list(_graphs):
        graphs.release()


def tensors_of(batch: Batch) -> list[Tensor]:
    """Return the tensors of a batch that are there."""
    return [tensor for tensor in (*batch[:3], *(batch.targets or ())) if tensor is not None]


def shapes_of(batch: Batch) -> tuple[object, ...]:
    """Return what batches must have in common to share a graph."""
    return tuple((t.shape, t.dtype) for t in tensors_of(batch))


def like_batch(batch: Batch, device: torch.device | None = None) -> Batch:
    """Return a batch of the same shapes with undefined values."""
    like = partial(torch.empty_like, device=device)
    targets = batch.targets and Targets._make(None if each is None else like(each) for each in batch.targets)
    return Batch(like(batch.images), like(batch.sizes), like(batch.ids), targets)


def copy_batch(to: Batch, batch: Batch) -> None:
    """Copy a batch into another one of the same shapes, without waiting for it."""
    for target, source in zip(tensors_of(to), tensors_of(batch), strict=True):
        target.copy_(source, non_blocking=True)
