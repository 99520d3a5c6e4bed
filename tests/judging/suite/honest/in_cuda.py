"""Honest candidates in CUDA, fast and slow: streams, graphs, workspaces, atomics and shared memory are used properly."""

from __future__ import annotations

from suite.row import CUDA, Row, honest
from suite.sources import STREAM, cuda

__all__ = ["ROWS"]

_CLASS = "class ModelNew(torch.nn.Module):\n"
_PAIR = "void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream)"
_HEAD = """
#include <cfloat>
static float* at(int64_t pointer) { return reinterpret_cast<float*>(pointer); }
static cudaStream_t on(int64_t stream) { return reinterpret_cast<cudaStream_t>(stream); }
__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}
__device__ float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}
"""
_RELU = """
__global__ void relu(const float* x, float* y, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x)
    y[i] = x[i] < 0 ? 0 : x[i];
}
"""


def _of_rows(name: str, task: str, source: str, out: str = "torch.empty_like(x)", stream: str = STREAM) -> Row:
    """Return a candidate with one input of two dimensions, whose launcher is `run`."""
    return honest(
        name,
        task,
        cuda(_HEAD + source, _PAIR) + f"{_CLASS}    def forward(self, x):\n        x = x.contiguous()\n"
        f"        y = {out}\n        native.run(x.data_ptr(), y.data_ptr(), *x.shape, {stream})\n        return y\n",
        CUDA,
    )


def _launcher(launch: str) -> str:
    return f"{_PAIR} {{\n{launch}\n}}"


_ONE_PER_ROW = "x.new_empty(x.shape[0])"

_SOFTMAX_OF_WARP = """
__global__ void softmax(const float* x, float* y, int64_t rows, int64_t columns) {
  int64_t row = blockIdx.x * int64_t(blockDim.y) + threadIdx.y;
  if (row >= rows) return;
  x += row * columns;
  y += row * columns;
  float largest = -FLT_MAX, sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += 32) {
    float next = fmaxf(largest, x[i]);
    sum = sum * expf(largest - next) + expf(x[i] - next);
    largest = next;
  }
  float all = warp_max(largest);
  sum = warp_sum(sum * expf(largest - all));
  for (int64_t i = threadIdx.x; i < columns; i += 32) y[i] = expf(x[i] - all) / sum;
}
"""

ROWS = (
    _of_rows(
        "relu in CUDA",
        "relu.py",
        _RELU + _launcher("relu<<<1024, 256, 0, on(stream)>>>(at(x), at(y), rows * columns);"),
    ),
    _of_rows(
        "relu on the default stream",
        "relu.py",
        _RELU + _launcher("relu<<<1024, 256>>>(at(x), at(y), rows * columns);"),
    ),
    _of_rows(
        "relu on few threads",
        "relu.py",
        _RELU + _launcher("relu<<<8, 64, 0, on(stream)>>>(at(x), at(y), rows * columns);"),
    ),
    _of_rows(
        "relu of four at a time",
        "relu.py",
        """
        __device__ float one(float x) { return x < 0 ? 0 : x; }
        __global__ void relu(const float* x, float* y, int64_t n) {
          int64_t i = 4 * (blockIdx.x * int64_t(blockDim.x) + threadIdx.x);
          bool is_aligned = (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % 16 == 0;
          if (is_aligned && i + 4 <= n) {
            float4 v = *reinterpret_cast<const float4*>(x + i);
            *reinterpret_cast<float4*>(y + i) = make_float4(one(v.x), one(v.y), one(v.z), one(v.w));
          } else {
            for (int64_t j = i; j < i + 4 && j < n; ++j) y[j] = one(x[j]);
          }
        }
        """
        + _launcher(
            "int64_t n = rows * columns;\nif (n > 0) relu<<<(n + 1023) / 1024, 256, 0, on(stream)>>>(at(x), at(y), n);"
        ),
    ),
    _of_rows(
        "relu with an L2 prefetch of its own",
        "relu.py",
        """
        __global__ void relu(const float* x, float* y, int64_t n) {
          int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
          if (i + 65536 < n) asm volatile("prefetch.global.L2 [%0];" ::"l"(x + i + 65536));
          if (i < n) y[i] = x[i] < 0 ? 0 : x[i];
        }
        """
        + _launcher(
            "int64_t n = rows * columns;\nif (n > 0) relu<<<(n + 255) / 256, 256, 0, on(stream)>>>(at(x), at(y), n);"
        ),
    ),
    _of_rows(
        "softmax of a warp",
        "softmax.py",
        _SOFTMAX_OF_WARP
        + _launcher("softmax<<<(rows + 3) / 4, dim3(32, 4), 0, on(stream)>>>(at(x), at(y), rows, columns);"),
    ),
    _of_rows(
        "softmax with much shared memory",
        "softmax.py",
        """
        __global__ void softmax(const float* x, float* y, int64_t columns) {
          extern __shared__ float row[];
          x += blockIdx.x * columns;
          y += blockIdx.x * columns;
          float largest = -FLT_MAX, sum = 0;
          for (int64_t i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, row[i] = x[i]);
          largest = warp_max(largest);
          for (int64_t i = threadIdx.x; i < columns; i += 32) sum += row[i] = expf(row[i] - largest);
          sum = warp_sum(sum);
          for (int64_t i = threadIdx.x; i < columns; i += 32) y[i] = row[i] / sum;
        }
        #define CHECK(call) \\
          if (cudaError_t error = (call); error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error))
        """
        + "#include <stdexcept>\n"
        + _launcher(
            "int bytes = std::max<int64_t>(96 << 10, columns * 4);\n"
            "CHECK(cudaFuncSetAttribute(softmax, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));\n"
            "if (rows > 0) softmax<<<rows, 32, bytes, on(stream)>>>(at(x), at(y), columns);\n"
            "CHECK(cudaGetLastError());"
        ),
    ),
    _of_rows(
        "row sums in CUDA",
        "row_sum.py",
        """
        __global__ void row_sum(const float* x, float* y, int64_t columns) {
          float sum = 0;
          for (int64_t i = threadIdx.x; i < columns; i += 32) sum += x[blockIdx.x * columns + i];
          sum = warp_sum(sum);
          if (threadIdx.x == 0) y[blockIdx.x] = sum;
        }
        """
        + _launcher("row_sum<<<rows, 32, 0, on(stream)>>>(at(x), at(y), columns);"),
        _ONE_PER_ROW,
    ),
    _of_rows(
        "row sums with atomics",
        "row_sum.py",
        """
        __global__ void row_sum(const float* x, float* y, int64_t columns) {
          float sum = 0;
          for (int64_t i = blockIdx.y * 256 + threadIdx.x; i < columns; i += 1024) sum += x[blockIdx.x * columns + i];
          sum = warp_sum(sum);
          if (threadIdx.x % 32 == 0) atomicAdd(y + blockIdx.x, sum);
        }
        """
        + _launcher(
            "cudaMemsetAsync(at(y), 0, rows * 4, on(stream));\n"
            "row_sum<<<dim3(rows, 4), 256, 0, on(stream)>>>(at(x), at(y), columns);"
        ),
        _ONE_PER_ROW,
    ),
    _of_rows(
        "row sums in two kernels with a workspace",
        "row_sum.py",
        """
        __global__ void partial(const float* x, float* sums, int64_t columns) {
          float sum = 0;
          for (int64_t i = blockIdx.y * 32 + threadIdx.x; i < columns; i += 256) sum += x[blockIdx.x * columns + i];
          sum = warp_sum(sum);
          if (threadIdx.x == 0) sums[blockIdx.x * 8 + blockIdx.y] = sum;
        }
        __global__ void total(const float* sums, float* y, int64_t rows) {
          int64_t row = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
          if (row >= rows) return;
          float sum = 0;
          for (int i = 0; i < 8; ++i) sum += sums[row * 8 + i];
          y[row] = sum;
        }
        """
        + _launcher(
            "static float* workspace = nullptr;\nstatic int64_t size = 0;\n"
            "if (size < rows) {\n  cudaFree(workspace);\n  cudaMalloc(&workspace, rows * 32);\n  size = rows;\n}\n"
            "partial<<<dim3(rows, 8), 32, 0, on(stream)>>>(at(x), workspace, columns);\n"
            "total<<<(rows + 255) / 256, 256, 0, on(stream)>>>(workspace, at(y), rows);"
        ),
        _ONE_PER_ROW,
    ),
    _of_rows(
        "row sums by the last block, with a counter that is reset",
        "row_sum.py",
        """
        __device__ unsigned arrived = 0;
        __global__ void row_sum(const float* x, float* y, int64_t rows, int64_t columns) {
          for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
            float sum = 0;
            for (int64_t i = threadIdx.x; i < columns; i += 32) sum += x[row * columns + i];
            sum = warp_sum(sum);
            if (threadIdx.x == 0) y[row] = sum;
          }
          if (threadIdx.x == 0 && atomicAdd(&arrived, 1) == gridDim.x - 1) arrived = 0;
        }
        """
        + _launcher("row_sum<<<512, 32, 0, on(stream)>>>(at(x), at(y), rows, columns);"),
        _ONE_PER_ROW,
    ),
    _of_rows(
        "running sums in CUDA",
        "cumsum.py",
        """
        __global__ void cumsum(const float* x, float* y, int64_t columns) {
          x += blockIdx.x * columns;
          y += blockIdx.x * columns;
          float before = 0;
          for (int64_t start = 0; start < columns; start += 32) {
            float value = start + threadIdx.x < columns ? x[start + threadIdx.x] : 0;
            for (int step = 1; step < 32; step *= 2) {
              float other = __shfl_up_sync(0xffffffffu, value, step);
              if (threadIdx.x >= step) value += other;
            }
            if (start + threadIdx.x < columns) y[start + threadIdx.x] = before + value;
            before += __shfl_sync(0xffffffffu, value, 31);
          }
        }
        """
        + _launcher("cumsum<<<rows, 32, 0, on(stream)>>>(at(x), at(y), columns);"),
    ),
    _of_rows(
        "running sums of one thread a row",
        "cumsum.py",
        """
        __global__ void cumsum(const float* x, float* y, int64_t rows, int64_t columns) {
          int64_t row = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
          if (row >= rows) return;
          double sum = 0;
          for (int64_t i = 0; i < columns; ++i) y[row * columns + i] = sum += x[row * columns + i];
        }
        """
        + _launcher("cumsum<<<(rows + 31) / 32, 32, 0, on(stream)>>>(at(x), at(y), rows, columns);"),
    ),
    _of_rows(
        "eight largest in CUDA",
        "top8.py",
        """
        __global__ void top8(const float* x, float* y, int64_t columns) {
          float best[8];
          for (float& value : best) value = -INFINITY;
          for (int64_t i = threadIdx.x; i < columns; i += 32) {
            float value = x[blockIdx.x * columns + i];
            for (float& kept : best)
              if (value > kept) {
                float other = kept;
                kept = value;
                value = other;
              }
          }
          for (int place = 0; place < 8; ++place) {
            float largest = warp_max(best[0]);
            unsigned who = __ballot_sync(0xffffffffu, best[0] == largest);
            if (threadIdx.x == __ffs(who) - 1) {
              for (int i = 0; i < 7; ++i) best[i] = best[i + 1];
              best[7] = -INFINITY;
            }
            if (threadIdx.x == 0) y[blockIdx.x * 8 + place] = largest;
          }
        }
        """
        + _launcher("top8<<<rows, 32, 0, on(stream)>>>(at(x), at(y), columns);"),
        "x.new_empty(x.shape[0], 8)",
    ),
    honest(
        "axpy in CUDA",
        "axpy.py",
        cuda(
            _HEAD
            + """
            __global__ void axpy(const float* x, const float* y, float* z, int64_t n) {
              int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
              if (i < n) z[i] = fmaf(2.5f, x[i], y[i]);
            }
            void run(int64_t x, int64_t y, int64_t z, int64_t n, int64_t stream) {
              if (n > 0) axpy<<<(n + 255) / 256, 256, 0, on(stream)>>>(at(x), at(y), at(z), n);
            }
            """,
            "void run(int64_t x, int64_t y, int64_t z, int64_t n, int64_t stream)",
        )
        + f"""
{_CLASS}    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x)
        native.run(x.data_ptr(), y.data_ptr(), z.data_ptr(), x.numel(), {STREAM})
        return z
""",
        CUDA,
    ),
    honest(
        "gelu in CUDA",
        "bias_gelu.py",
        cuda(
            _HEAD
            + """
            __global__ void gelu(const float* x, const float* bias, float* y, int64_t columns) {
              for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
                float z = x[blockIdx.x * columns + i] + bias[i];
                y[blockIdx.x * columns + i] = 0.5f * z * erfcf(-z * 0.70710678f);
              }
            }
            void run(int64_t x, int64_t bias, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              if (rows > 0) gelu<<<rows, 256, 0, on(stream)>>>(at(x), at(bias), at(y), columns);
            }
            """,
            "void run(int64_t x, int64_t bias, int64_t y, int64_t rows, int64_t columns, int64_t stream)",
        )
        + f"""
{_CLASS}    def forward(self, x, bias):
        x, bias = x.contiguous(), bias.contiguous()
        y = torch.empty_like(x)
        native.run(x.data_ptr(), bias.data_ptr(), y.data_ptr(), *x.shape, {STREAM})
        return y
""",
        CUDA,
    ),
    honest(
        "rms norm in CUDA",
        "rmsnorm.py",
        cuda(
            _HEAD
            + """
            __global__ void rmsnorm(const float* x, const float* weight, float* y, int64_t columns, float eps) {
              x += blockIdx.x * columns;
              y += blockIdx.x * columns;
              float sum = 0;
              for (int64_t i = threadIdx.x; i < columns; i += 32) sum += x[i] * x[i];
              float scale = 1 / sqrtf(warp_sum(sum) / columns + eps);
              for (int64_t i = threadIdx.x; i < columns; i += 32) y[i] = x[i] * scale * weight[i];
            }
            void run(int64_t x, int64_t weight, int64_t y, int64_t rows, int64_t columns, double eps, int64_t stream) {
              if (rows > 0) rmsnorm<<<rows, 32, 0, on(stream)>>>(at(x), at(weight), at(y), columns, eps);
            }
            """,
            "void run(int64_t x, int64_t weight, int64_t y, int64_t rows, int64_t columns, double eps, int64_t stream)",
        )
        + f"""
{_CLASS}    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.2 * torch.randn(features))
        self.eps = eps

    def forward(self, x):
        x, weight = x.contiguous(), self.weight.contiguous()
        y = torch.empty_like(x)
        native.run(x.data_ptr(), weight.data_ptr(), y.data_ptr(), *x.shape, self.eps, {STREAM})
        return y
""",
        CUDA,
    ),
    honest(
        "product in tiles",
        "matmul.py",
        cuda(
            _HEAD
            + """
            __global__ void matmul(const float* a, const float* b, float* c, int m, int k, int n) {
              __shared__ float left[16][17], right[16][17];
              int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
              float sum = 0;
              for (int start = 0; start < k; start += 16) {
                int i = start + threadIdx.x, j = start + threadIdx.y;
                left[threadIdx.y][threadIdx.x] = row < m && i < k ? a[int64_t(row) * k + i] : 0;
                right[threadIdx.y][threadIdx.x] = j < k && column < n ? b[int64_t(j) * n + column] : 0;
                __syncthreads();
                for (int step = 0; step < 16; ++step) sum += left[threadIdx.y][step] * right[step][threadIdx.x];
                __syncthreads();
              }
              if (row < m && column < n) c[int64_t(row) * n + column] = sum;
            }
            void run(int64_t a, int64_t b, int64_t c, int m, int k, int n, int64_t stream) {
              dim3 blocks((n + 15) / 16, (m + 15) / 16);
              if (m > 0 && n > 0) matmul<<<blocks, dim3(16, 16), 0, on(stream)>>>(at(a), at(b), at(c), m, k, n);
            }
            """,
            "void run(int64_t a, int64_t b, int64_t c, int m, int k, int n, int64_t stream)",
        )
        + f"""
{_CLASS}    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        c = a.new_empty(a.shape[0], b.shape[1])
        native.run(a.data_ptr(), b.data_ptr(), c.data_ptr(), *a.shape, b.shape[1], {STREAM})
        return c
""",
        CUDA,
    ),
    honest(
        "decay with PyTorch's headers",
        "decay.py",
        '''
        import torch
        from torch.utils.cpp_extension import load_inline

        native = load_inline(
            "native",
            cpp_sources="torch::Tensor decay(torch::Tensor x, torch::Tensor rate);",
            cuda_sources="""
            #include <c10/cuda/CUDAStream.h>
            __global__ void kernel(const float* x, const float* rate, float* y, int64_t n) {
              int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
              if (i < n) y[i] = x[i] * expf(-rate[i]);
            }
            torch::Tensor decay(torch::Tensor x, torch::Tensor rate) {
              x = x.contiguous();
              rate = rate.contiguous();
              torch::Tensor y = torch::empty_like(x);
              int64_t n = x.numel();
              cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
              if (n > 0)
                kernel<<<(n + 255) / 256, 256, 0, stream>>>(
                    x.data_ptr<float>(), rate.data_ptr<float>(), y.data_ptr<float>(), n);
              return y;
            }
            """,
            functions=["decay"],
        )

        class ModelNew(torch.nn.Module):
            def forward(self, x, rate):
                return native.decay(x, rate)
        ''',
        CUDA,
    ),
    honest(
        "a graph with copies in and out",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.graphs = {}

            def forward(self, x):
                key = (tuple(x.shape), x.dtype, x.device)
                if key not in self.graphs:
                    self.graphs[key] = self.captured(x)
                graph, kept, y = self.graphs[key]
                kept.copy_(x)
                graph.replay()
                return y.clone()

            def captured(self, x):
                kept = torch.empty(x.shape, dtype=x.dtype, device=x.device)
                kept.copy_(x)
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    torch.softmax(kept, dim=-1)
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    y = torch.softmax(kept, dim=-1)
                return graph, kept, y
        """,
        CUDA,
        signs=("CUDA graph",),
    ),
    honest(
        "two streams that are joined",
        "axpy.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.side = torch.cuda.Stream() if torch.cuda.is_available() else None

            def forward(self, x, y):
                current = torch.cuda.current_stream()
                z = torch.empty_like(x)
                half = len(x) // 2
                self.side.wait_stream(current)
                with torch.cuda.stream(self.side):
                    torch.add(y[:half], x[:half], alpha=2.5, out=z[:half])
                torch.add(y[half:], x[half:], alpha=2.5, out=z[half:])
                for tensor in (x, y, z):
                    tensor.record_stream(self.side)
                current.wait_stream(self.side)
                return z
        """,
        CUDA,
        signs=("other streams",),
    ),
    honest(
        "waits for the device itself",
        "relu.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                y = torch.relu(x)
                torch.cuda.synchronize()
                return y
        """,
        CUDA,
    ),
)
