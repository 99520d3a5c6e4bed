"""How the tests on a GPU capture what they call in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

__all__ = ["capture"]

Results = TypeVar("Results")


def capture(step: Callable[[], Results]) -> tuple[torch.cuda.CUDAGraph, Results]:
    """Return a graph of one step, after some steps on another stream, as capturing asks for, and what a replay fills in."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    return graph, results
