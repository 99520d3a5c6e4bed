"""Kernels that come up early still find what earlier kernels have written, in a stream and in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

# Three kernels, each of which lets the next one up and takes its time before it writes. The last one reads what the
# first one has written, and the second one in between.
KERNELS = """
    #include <opsmith/kernel.h>
    #include <opsmith/early_launch.h>
    #include <opsmith/workspace.h>

    using namespace opsmith;

    namespace {

    __device__ void linger() {
      const long long begin = clock64();
      while (clock64() - begin < 50000) {
      }
    }

    template <class T>
    __global__ void copy(const T* from, T* to, int n) {
      wait_for_earlier_kernels();
      linger();
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) to[i] = from[i];
    }

    template <class T>
    __global__ void turn(const T* from, T* to, int n) {
      wait_for_earlier_kernels();
      linger();
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) to[i] = from[n - 1 - i];
    }

    template <class T>
    __global__ void add(const T* first, const T* second, T* to, int n) {
      wait_for_earlier_kernels();
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) to[i] = first[i] + second[i];
    }

    }  // namespace

    template <class T>
    void with_its_mirror(View<const T, 1> x, View<T, 1> out, Stream stream) {
      constexpr int threads = 128;
      const int n = static_cast<int>(x.size[0]);
      const unsigned blocks = blocks_for(n, threads);
      const Workspace<T> first(n), second(n);
      launch_early<copy<T>>("with_its_mirror", blocks, threads, 0, stream, x.data, first.data, n);
      launch_early<turn<T>>("with_its_mirror", blocks, threads, 0, stream, first.data, second.data, n);
      launch_early<add<T>>("with_its_mirror", blocks, threads, 0, stream, first.data, second.data, out.data, n);
    }
"""
DEFINITION = """
    @opsmith.op(cuda="mirror.cu")
    def with_its_mirror(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
        return x + x.flip(0)
"""


@pytest.fixture
def operator(package: Callable[..., ModuleType]) -> Callable[[torch.Tensor], torch.Tensor]:
    found: Callable[[torch.Tensor], torch.Tensor] = package(DEFINITION, mirror__cu=KERNELS).with_its_mirror
    return found


def test_results_of_earlier_kernels_are_there(operator: Callable[[torch.Tensor], torch.Tensor]) -> None:
    # Fewer blocks than the GPU has room for, so that early ones come up, and many times as many.
    for size in (1000, 1_000_000):
        x = torch.zeros(size, device="cuda")
        for step in range(50):
            x.copy_(torch.arange(size, device="cuda") + step)
            found = operator(x)
            x.zero_()  # of another launch: it has to wait for all three
            assert bool((found == size - 1 + 2 * step).all())


def test_a_graph_of_early_launches_replays(operator: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.arange(1000.0, device="cuda")
    operator(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = operator(operator(x))
    for step in range(20):
        x.copy_(torch.arange(1000, device="cuda") + step)
        graph.replay()
        assert bool((found == 2 * (999 + 2 * step)).all())
