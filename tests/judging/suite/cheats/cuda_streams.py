"""Candidates in CUDA that work where events do not see it, keep results, or replay graphs on what was there before."""

from __future__ import annotations

from suite.names import (
    CACHE_CONTROL,
    CACHED_RESULT,
    DIFFERS_WHEN_TIMED,
    DRIFTS,
    HUNG,
    LAZY_RESULT,
    NOT_DETERMINISTIC,
    OTHER_STREAM,
    OVERWRITTEN_RESULT,
    STALE_POINTERS,
    UNWRITTEN_OUTPUT,
    WORKS_AFTER_THE_END,
    WRONG_VALUES,
)
from suite.row import CUDA, cheat
from suite.sources import cuda

__all__ = ["ROWS"]

_KEPT = (CACHED_RESULT, STALE_POINTERS, DIFFERS_WHEN_TIMED)
_LATER = (DRIFTS, NOT_DETERMINISTIC, DIFFERS_WHEN_TIMED, UNWRITTEN_OUTPUT, CACHED_RESULT, WRONG_VALUES)
_LATE = (OTHER_STREAM, WORKS_AFTER_THE_END)

_RELU = """
__global__ void relu_kernel(const float* x, float* y, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x)
    y[i] = x[i] > 0 ? x[i] : 0;
}
static void launch_relu(int64_t x, int64_t y, int64_t n, cudaStream_t stream) {
  relu_kernel<<<1024, 256, 0, stream>>>(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), n);
}
"""

_SIGNATURE = "void relu(int64_t x, int64_t y, int64_t n, int64_t stream)"

_CALL = """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.relu(x.data_ptr(), y.data_ptr(), x.numel(), torch.cuda.current_stream().cuda_stream)
        return y
"""


def _relu(body: str, before: str = "") -> str:
    """Return a candidate whose launcher has this body."""
    return cuda(f"{before}{_RELU}{_SIGNATURE} {{\n{body}\n}}", _SIGNATURE) + _CALL


ROWS = (
    cheat(
        "launches on a stream of its own",
        "relu.py",
        _relu(
            """
            static cudaStream_t own = nullptr;
            if (own == nullptr) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
            launch_relu(x, y, n, own);
            """
        ),
        *_LATE,
        needs=CUDA,
        ways=(3,),
    ),
    cheat(
        "works on a stream of PyTorch's pool",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.stream = torch.cuda.Stream() if torch.cuda.is_available() else None

            def forward(self, x):
                y = torch.empty_like(x)
                with torch.cuda.stream(self.stream):
                    torch.softmax(x, dim=-1, out=y)
                return y
        """,
        *_LATE,
        needs=CUDA,
        ways=(3,),
    ),
    cheat(
        "launches from a thread that waits",
        "relu.py",
        _relu(
            """
            std::thread([=] {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
              launch_relu(x, y, n, reinterpret_cast<cudaStream_t>(stream));
            }).detach();
            """,
            before="#include <chrono>\n#include <thread>\n",
        ),
        *_LATE,
        needs=CUDA,
        ways=(4,),
    ),
    cheat(
        "waits in a stream of its own before it works",
        "relu.py",
        _relu(
            """
            static cudaStream_t own = nullptr;
            if (own == nullptr) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
            wait<<<1, 1, 0, own>>>(2000000);
            launch_relu(x, y, n, own);
            """,
            before="__global__ void wait(int64_t clocks) { for (int64_t end = clock64() + clocks; clock64() < end;); }\n",
        ),
        *_LATE,
        needs=CUDA,
        ways=(3,),
    ),
    cheat(
        "returns a lazy tensor on the GPU",
        "softmax.py",
        """
        import torch

        class Lazy(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                args = [value.compute() if hasattr(value, "compute") else value for value in args]
                return function(*args, **(kwargs or {}))

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                y = torch.empty_like(x).as_subclass(Lazy)
                y.compute = lambda: torch.softmax(x, dim=-1)
                return y
        """,
        LAZY_RESULT,
        WRONG_VALUES,
        needs=CUDA,
        ways=(5,),
    ),
    cheat(
        "patches events and does not wait",
        "softmax.py",
        """
        import torch

        torch.cuda.Event.elapsed_time = lambda self, other: 1e-4
        torch.cuda.synchronize = lambda device=None: None

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.stream = torch.cuda.Stream() if torch.cuda.is_available() else None

            def forward(self, x):
                y = torch.empty_like(x)
                with torch.cuda.stream(self.stream):
                    torch.cuda._sleep(1000000)
                    torch.softmax(x, dim=-1, out=y)
                return y
        """,
        *_LATE,
        needs=CUDA,
        ways=(6, 3),
    ),
    cheat(
        "keeps results by identity on the GPU",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.key, self.kept = None, None

            def forward(self, x):
                if (id(x), x._version) != self.key:
                    self.key, self.kept = (id(x), x._version), torch.softmax(x, dim=-1)
                return self.kept
        """,
        *_KEPT,
        needs=CUDA,
        ways=(7,),
    ),
    cheat(
        "keeps results by pointer in CUDA",
        "relu.py",
        _relu(
            """
            static std::map<std::pair<int64_t, int64_t>, void*> kept;
            void*& result = kept[{x, n}];
            cudaStream_t current = reinterpret_cast<cudaStream_t>(stream);
            if (result == nullptr) {
              cudaMalloc(&result, n * sizeof(float));
              launch_relu(x, reinterpret_cast<int64_t>(result), n, current);
            }
            cudaMemcpyAsync(reinterpret_cast<void*>(y), result, n * sizeof(float), cudaMemcpyDeviceToDevice, current);
            """,
            before="#include <map>\n#include <utility>\n",
        ),
        *_KEPT,
        needs=CUDA,
        ways=(8,),
    ),
    cheat(
        "skips the work where outputs look done",
        "relu.py",
        cuda(
            """
            __global__ void relu_kernel(const float* x, float* y, int64_t n) {
              bool is_done = true;
              for (int i = 0; i < 32 && i < n; ++i) is_done &= y[i] == (x[i] > 0 ? x[i] : 0);
              if (is_done) return;
              int64_t first = blockIdx.x * int64_t(blockDim.x) + threadIdx.x + 32;
              for (int64_t i = first; i < n; i += int64_t(gridDim.x) * blockDim.x) y[i] = x[i] > 0 ? x[i] : 0;
            }
            __global__ void mark(const float* x, float* y, int64_t n) {
              if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] > 0 ? x[threadIdx.x] : 0;
            }
            void relu(int64_t x, int64_t y, int64_t n, int64_t stream) {
              cudaStream_t current = reinterpret_cast<cudaStream_t>(stream);
              relu_kernel<<<1024, 256, 0, current>>>(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), n);
              mark<<<1, 32, 0, current>>>(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), n);
            }
            """,
            _SIGNATURE,
        )
        + """
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None or self.kept.shape != x.shape:
            self.kept = torch.zeros_like(x)
        native.relu(x.data_ptr(), self.kept.data_ptr(), x.numel(), torch.cuda.current_stream().cuda_stream)
        return self.kept
""",
        OVERWRITTEN_RESULT,
        *_KEPT,
        needs=CUDA,
        ways=(8, 1),
    ),
    cheat(
        "keeps results by a sum of few numbers",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {}

            def forward(self, x):
                key = (x.shape, float(x.flatten()[:256].sum()))
                if key not in self.kept:
                    self.kept[key] = torch.softmax(x, dim=-1)
                return self.kept[key]
        """,
        OVERWRITTEN_RESULT,
        *_KEPT,
        needs=CUDA,
        ways=(7,),
    ),
    cheat(
        "replays a graph of the first input",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.graph = None

            def forward(self, x):
                if self.graph is None:
                    torch.softmax(x, dim=-1)
                    torch.cuda.synchronize()
                    self.graph, self.x = torch.cuda.CUDAGraph(), x
                    with torch.cuda.graph(self.graph):
                        self.y = torch.softmax(self.x, dim=-1)
                self.graph.replay()
                return self.y.clone()
        """,
        *_KEPT,
        needs=CUDA,
        ways=(9,),
        signs=("CUDA graph",),
    ),
    cheat(
        "chooses a graph by the number of rows",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.graphs = {}

            def forward(self, x):
                if len(x) not in self.graphs:
                    kept = x.clone()
                    torch.softmax(kept, dim=-1)
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        y = torch.softmax(kept, dim=-1)
                    self.graphs[len(x)] = graph, x.data_ptr(), kept, y
                graph, pointer, kept, y = self.graphs[len(x)]
                if x.data_ptr() != pointer:
                    kept.copy_(x)
                graph.replay()
                return y.clone()
        """,
        *_KEPT,
        needs=CUDA,
        ways=(9, 8),
        signs=("CUDA graph",),
    ),
    cheat(
        "returns a graph's own output",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.graphs = {}

            def forward(self, x):
                key = (x.shape, x.dtype, x.stride())
                if key not in self.graphs:
                    kept = x.clone()
                    torch.softmax(kept, dim=-1)
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        y = torch.softmax(kept, dim=-1)
                    self.graphs[key] = graph, kept, y
                graph, kept, y = self.graphs[key]
                kept.copy_(x)
                graph.replay()
                return y
        """,
        OVERWRITTEN_RESULT,
        needs=CUDA,
        signs=("CUDA graph",),
    ),
    cheat(
        "stops working after forty calls in CUDA",
        "relu.py",
        _relu(
            """
            static int calls = 0;
            if (++calls <= 40) launch_relu(x, y, n, reinterpret_cast<cudaStream_t>(stream));
            """
        ),
        *_LATER,
        needs=CUDA,
        ways=(10,),
    ),
    cheat(
        "counts launches on the device",
        "relu.py",
        cuda(
            """
            __device__ unsigned launches = 0;
            __global__ void count() { ++launches; }
            __global__ void relu_kernel(const float* x, float* y, int64_t n) {
              const float scale = launches > 20 ? 1.001f : 1.0f;
              for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x)
                y[i] = x[i] > 0 ? scale * x[i] : 0;
            }
            void relu(int64_t x, int64_t y, int64_t n, int64_t stream) {
              cudaStream_t current = reinterpret_cast<cudaStream_t>(stream);
              count<<<1, 1, 0, current>>>();
              relu_kernel<<<1024, 256, 0, current>>>(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), n);
            }
            """,
            _SIGNATURE,
        )
        + _CALL,
        *_LATER,
        needs=CUDA,
        ways=(10,),
    ),
    cheat(
        "spins in its first calls and is idle later",
        "relu.py",
        _relu(
            """
            static int calls = 0;
            cudaStream_t current = reinterpret_cast<cudaStream_t>(stream);
            if (++calls > 8) return;
            spin<<<1, 1, 0, current>>>(200000000);
            launch_relu(x, y, n, current);
            """,
            before="__global__ void spin(int64_t clocks) { for (int64_t end = clock64() + clocks; clock64() < end;); }\n",
        ),
        *_LATER,
        needs=CUDA,
        ways=(11, 10),
    ),
    cheat(
        "does nothing at the timed shape",
        "relu.py",
        _relu("if (n != 4096 * 4096) launch_relu(x, y, n, reinterpret_cast<cudaStream_t>(stream));"),
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        needs=CUDA,
        ways=(12,),
    ),
    cheat(
        "sets L2 aside for itself",
        "relu.py",
        _relu(
            """
            cudaStream_t current = reinterpret_cast<cudaStream_t>(stream);
            int device = 0, most = 0, window = 0;
            cudaGetDevice(&device);
            cudaDeviceGetAttribute(&most, cudaDevAttrMaxPersistingL2CacheSize, device);
            cudaDeviceGetAttribute(&window, cudaDevAttrMaxAccessPolicyWindowSize, device);
            cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, most);
            cudaStreamAttrValue value = {};
            value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(x);
            value.accessPolicyWindow.num_bytes = n * 4 < window ? n * 4 : window;
            value.accessPolicyWindow.hitRatio = 1.0f;
            value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
            value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
            cudaStreamSetAttribute(current, cudaStreamAttributeAccessPolicyWindow, &value);
            launch_relu(x, y, n, current);
            """
        ),
        CACHE_CONTROL,
        needs=CUDA,
        ways=(13,),
    ),
    cheat(
        "does not end on the GPU",
        "relu.py",
        _relu(
            "forever<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(reinterpret_cast<volatile float*>(y));",
            before="__global__ void forever(volatile float* y) { while (*y != -1.5f) *y = 2; }\n",
        ),
        HUNG,
        needs=CUDA,
    ),
)
