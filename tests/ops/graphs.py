"""How the tests on a GPU capture what they call in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

__all__ = ["capture"]

Results = TypeVar("Results")


def capture(step: Callable[[], Results]) -> tuple[torch.cuda.CUDAGraph, Results]:
    """Return a graph of one step, after some steps on another stream, as capturing asks for, and what a replay fills in.

    It is captured on that stream too, since autograd's nodes of leaves belong to the stream on which they were made; and
    results leave their graph behind, so that these nodes end with it.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        results = tree_map(Tensor.detach, step())
    return graph, results
