"""What a softmax of rows holds on a GPU, whichever language its kernel is in: for the examples of kernels compiled ahead."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

__all__ = [
    "captured_in_a_graph",
    "differentiated_and_compiled",
    "on_threads_and_streams",
    "with_offsets_beyond_32_bits",
]

Softmax = Callable[..., Tensor]


def with_offsets_beyond_32_bits(softmax: Softmax) -> None:
    rows, columns = (1 << 31) // 16384 + 64, 16384
    x = torch.empty(rows, columns, device="cuda", dtype=torch.float16).normal_()
    y = softmax(x)
    torch.testing.assert_close(y[-8:], torch.softmax(x[-8:], 1), rtol=2e-2, atol=1e-6)
    torch.testing.assert_close(y[:8], torch.softmax(x[:8], 1), rtol=2e-2, atol=1e-6)


def on_threads_and_streams(softmax: Softmax) -> None:
    x = torch.randn(64, 300, device="cuda")
    expected = torch.softmax(x, 1)

    def on_a_stream(_: int) -> Tensor:
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            y = softmax(x)
            torch.cuda.current_stream().synchronize()
            return y

    torch.cuda.synchronize()
    with ThreadPoolExecutor(8) as pool:
        for y in pool.map(on_a_stream, range(64)):
            torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-6)


def captured_in_a_graph(softmax: Softmax) -> None:
    """A configuration that no call has taken before is loaded while a graph is captured."""
    graph, given = torch.cuda.CUDAGraph(), torch.randn(8, 3000, device="cuda")
    with torch.cuda.graph(graph):
        y = softmax(given)
    given.normal_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, torch.softmax(given, 1), rtol=1e-5, atol=1e-6)


def differentiated_and_compiled(softmax: Softmax) -> None:
    x = torch.randn(9, 700, device="cuda", requires_grad=True)
    g = torch.randn(9, 700, device="cuda")
    (expected,) = torch.autograd.grad(torch.softmax(0.5 * x, 1), x, g)
    (found,) = torch.autograd.grad(softmax(x, 0.5), x, g)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    compiled = torch.compile(lambda x: softmax(x, 0.5) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(x), 2 * torch.softmax(0.5 * x, 1), rtol=1e-4, atol=1e-5)
