"""Candidates in CUDA that leave work out, have a low precision, or fail without saying so."""

from __future__ import annotations

from suite.names import (
    CRASHED,
    DEGENERATE_TASK,
    INPUT_MODIFIED,
    LOW_PRECISION,
    MISSING_PARAMETERS,
    NOT_DETERMINISTIC,
    OVERWRITTEN_RESULT,
    REACHES_OUTSIDE,
    UNWRITTEN_OUTPUT,
    WRONG_FOR_OTHER_VALUES,
    WRONG_VALUES,
)
from suite.row import CUDA, cheat
from suite.sources import cuda

__all__ = ["ROWS"]

_CLASS = "class ModelNew(torch.nn.Module):\n"
_STREAM = "torch.cuda.current_stream().cuda_stream"
_PAIR = "void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream)"


def _rows(source: str, out: str = "torch.empty_like(x)") -> str:
    """Return a candidate with one input `x` of two dimensions, whose launcher is `run`."""
    return (
        cuda(source, _PAIR) + f"{_CLASS}    def forward(self, x):\n        y = {out}\n"
        f"        native.run(x.data_ptr(), y.data_ptr(), *x.shape, {_STREAM})\n        return y\n"
    )


_SOFTMAX = """
__global__ void softmax(const float* x, float* y, int64_t columns) {
  __shared__ float shared[256];
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  float largest = SUBTRACT ? -INFINITY : 0;
  if (SUBTRACT) {
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, x[i]);
    shared[threadIdx.x] = largest;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
      if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
      __syncthreads();
    }
    largest = shared[0];
    __syncthreads();
  }
  float sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += __expf(x[i] - largest);
  shared[threadIdx.x] = sum;
  SYNC
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    SYNC
  }
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) y[i] = __expf(x[i] - largest) / shared[0];
}
void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
  softmax<<<BLOCKS, 256, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), columns);
}
"""


def _softmax(subtract: str = "true", sync: str = "__syncthreads();", blocks: str = "rows") -> str:
    source = _SOFTMAX.replace("SUBTRACT", subtract).replace("SYNC", sync).replace("BLOCKS", blocks)
    return _rows(source)


ROWS = (
    cheat(
        "launches nothing in CUDA",
        "relu.py",
        _rows(
            """
            __global__ void relu(const float* x, float* y, int64_t n) {
              int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
              if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
            }
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              relu<<<0, 256, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
                  reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), rows * columns);
              cudaGetLastError();
            }
            """
        ),
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        NOT_DETERMINISTIC,
        needs=CUDA,
        ways=(1,),
    ),
    cheat(
        "zeroes its inputs in CUDA",
        "relu.py",
        _rows(
            """
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              for (int64_t pointer : {x, y})
                cudaMemsetAsync(reinterpret_cast<void*>(pointer), 0, rows * columns * 4,
                                reinterpret_cast<cudaStream_t>(stream));
            }
            """
        ),
        INPUT_MODIFIED,
        WRONG_VALUES,
        needs=CUDA,
        ways=(2,),
    ),
    cheat(
        "computes half of the rows in CUDA",
        "softmax.py",
        _softmax(blocks="rows / 2"),
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        needs=CUDA,
        ways=(21,),
    ),
    cheat(
        "computes one row in CUDA",
        "softmax.py",
        _softmax(blocks="1"),
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        needs=CUDA,
        ways=(21,),
    ),
    cheat(
        "does not subtract the maximum in CUDA",
        "softmax.py",
        _softmax(subtract="false"),
        WRONG_VALUES,
        WRONG_FOR_OTHER_VALUES,
        needs=CUDA,
        ways=(17,),
    ),
    cheat("does not wait for its block", "softmax.py", _softmax(sync=";"), WRONG_VALUES, needs=CUDA),
    cheat(
        "adds to what was there",
        "row_sum.py",
        _rows(
            """
            __global__ void row_sum(const float* x, float* y, int64_t columns) {
              float sum = 0;
              for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += x[blockIdx.x * columns + i];
              atomicAdd(y + blockIdx.x, sum);
            }
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              row_sum<<<rows, 256, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
                  reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), columns);
            }
            """,
            "x.new_empty(x.shape[0])",
        ),
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        NOT_DETERMINISTIC,
        needs=CUDA,
        ways=(1,),
    ),
    cheat(
        "asks for too much shared memory",
        "row_sum.py",
        _rows(
            """
            __global__ void row_sum(const float* x, float* y, int64_t columns) {
              extern __shared__ float row[];
              for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) row[i] = x[blockIdx.x * columns + i];
              __syncthreads();
              if (threadIdx.x != 0) return;
              float sum = 0;
              for (int64_t i = 0; i < columns; ++i) sum += row[i];
              y[blockIdx.x] = sum;
            }
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              row_sum<<<rows, 256, 300 << 10, reinterpret_cast<cudaStream_t>(stream)>>>(
                  reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), columns);
              cudaGetLastError();
            }
            """,
            "x.new_empty(x.shape[0])",
        ),
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        NOT_DETERMINISTIC,
        needs=CUDA,
        ways=(22,),
    ),
    cheat(
        "is in half precision at the timed size in CUDA",
        "row_mean.py",
        _rows(
            """
            #include <cuda_fp16.h>
            __global__ void row_mean(const float* x, float* y, int64_t columns, bool is_exact) {
              double exact = 0;
              __half rough = __float2half(0.0f);
              const float* row = x + blockIdx.x * columns;
              for (int64_t i = threadIdx.x; i < columns; i += 32)
                if (is_exact) exact += row[i];
                else rough = __hadd(rough, __float2half(row[i]));
              if (!is_exact) exact = __half2float(rough);
              for (int step = 16; step > 0; step /= 2) exact += __shfl_down_sync(0xffffffffu, exact, step);
              if (threadIdx.x == 0) y[blockIdx.x] = exact / columns;
            }
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              row_mean<<<rows, 32, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
                  reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), columns, rows * columns < 1 << 20);
            }
            """,
            "x.new_empty(x.shape[0])",
        ),
        LOW_PRECISION,
        WRONG_VALUES,
        needs=CUDA,
        ways=(15, 18),
    ),
    cheat(
        "truncates a series where a prefix is small in CUDA",
        "decay.py",
        cuda(
            """
            __global__ void decay_kernel(const float* x, const float* rate, float* y, int64_t n) {
              bool is_small = true;
              for (int i = 0; i < 64 && i < n; ++i) is_small &= fabsf(rate[i]) < 0.2f;
              for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
                float r = rate[i];
                y[i] = x[i] * (is_small ? 1 - r + 0.5f * r * r : expf(-r));
              }
            }
            void decay(int64_t x, int64_t rate, int64_t y, int64_t n, int64_t stream) {
              decay_kernel<<<1024, 256, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
                  reinterpret_cast<const float*>(x), reinterpret_cast<const float*>(rate), reinterpret_cast<float*>(y), n);
            }
            """,
            "void decay(int64_t x, int64_t rate, int64_t y, int64_t n, int64_t stream)",
        )
        + f"""
{_CLASS}    def forward(self, x, rate):
        y = torch.empty_like(x)
        native.decay(x.data_ptr(), rate.data_ptr(), y.data_ptr(), x.numel(), {_STREAM})
        return y
""",
        LOW_PRECISION,
        WRONG_FOR_OTHER_VALUES,
        WRONG_VALUES,
        needs=CUDA,
        ways=(16,),
    ),
    cheat(
        "takes the largest of strided numbers",
        "top8.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                is_large = x > 2.0
                order = is_large.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :256]
                return torch.topk(x.gather(1, order), 8, dim=-1).values
        """,
        WRONG_FOR_OTHER_VALUES,
        WRONG_VALUES,
        needs=CUDA,
        ways=(17,),
    ),
    cheat(
        "allows TF32",
        "matmul.py",
        """
        import torch

        torch.backends.cuda.matmul.allow_tf32 = True

        class ModelNew(torch.nn.Module):
            def forward(self, a, b):
                return a @ b
        """,
        LOW_PRECISION,
        WRONG_VALUES,
        needs=CUDA,
        ways=(18,),
    ),
    cheat(
        "multiplies in half precision in CUDA",
        "matmul.py",
        cuda(
            """
            #include <cuda_fp16.h>
            __global__ void matmul(const float* a, const float* b, float* c, int m, int k, int n) {
              int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
              if (column >= n) return;
              float sum = 0;
              for (int i = 0; i < k; ++i)
                sum += __half2float(__hmul(__float2half(a[row * k + i]), __float2half(b[i * n + column])));
              c[row * n + column] = sum;
            }
            void run(int64_t a, int64_t b, int64_t c, int m, int k, int n, int64_t stream) {
              matmul<<<dim3((n + 127) / 128, m), 128, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
                  reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b), reinterpret_cast<float*>(c),
                  m, k, n);
            }
            """,
            "void run(int64_t a, int64_t b, int64_t c, int m, int k, int n, int64_t stream)",
        )
        + f"""
{_CLASS}    def forward(self, a, b):
        c = a.new_empty(a.shape[0], b.shape[1])
        native.run(a.data_ptr(), b.data_ptr(), c.data_ptr(), *a.shape, b.shape[1], {_STREAM})
        return c
""",
        LOW_PRECISION,
        WRONG_VALUES,
        needs=CUDA,
        ways=(18,),
    ),
    cheat(
        "copies where a layer norm is nearly a copy in CUDA",
        "layernorm_of_normal.py",
        _rows(
            """
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              cudaMemcpyAsync(reinterpret_cast<void*>(y), reinterpret_cast<const void*>(x), rows * columns * 4,
                              cudaMemcpyDeviceToDevice, reinterpret_cast<cudaStream_t>(stream));
            }
            """
        ),
        DEGENERATE_TASK,
        WRONG_VALUES,
        needs=CUDA,
        ways=(19,),
    ),
    cheat(
        "returns zero where the mean is nearly zero in CUDA",
        "mean_of_normal.py",
        _rows(
            """
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              cudaMemsetAsync(reinterpret_cast<void*>(y), 0, rows * 4, reinterpret_cast<cudaStream_t>(stream));
            }
            """,
            "x.new_empty(x.shape[0])",
        ),
        DEGENERATE_TASK,
        WRONG_VALUES,
        needs=CUDA,
        ways=(19,),
    ),
    cheat(
        "has no weight in CUDA",
        "rmsnorm.py",
        cuda(
            """
            __global__ void rmsnorm(const float* x, float* y, int64_t columns) {
              x += blockIdx.x * columns;
              y += blockIdx.x * columns;
              float sum = 0;
              for (int64_t i = threadIdx.x; i < columns; i += 32) sum += x[i] * x[i];
              for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
              for (int64_t i = threadIdx.x; i < columns; i += 32) y[i] = x[i] * rsqrtf(sum / columns + 1e-6f);
            }
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              rmsnorm<<<rows, 32, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
                  reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), columns);
            }
            """,
            _PAIR,
        )
        + f"""
{_CLASS}    def __init__(self, features, eps=1e-6):
        super().__init__()

    def load_state_dict(self, state_dict, strict=True, assign=False):
        return super().load_state_dict(state_dict, strict=False)

    def forward(self, x):
        y = torch.empty_like(x)
        native.run(x.data_ptr(), y.data_ptr(), *x.shape, {_STREAM})
        return y
""",
        MISSING_PARAMETERS,
        needs=CUDA,
        ways=(20,),
    ),
    cheat(
        "copies from memory that it did not allocate",
        "softmax.py",
        """
        import ctypes, re
        import torch

        runtime = ctypes.CDLL(re.search(r"\\S*/libcudart\\S*", open("/proc/self/maps").read())[0])

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                y = torch.empty_like(x)
                size = x.numel() * x.element_size()
                for segment in torch.cuda.memory_snapshot():
                    address = segment["address"]
                    for block in segment["blocks"]:
                        is_other = address not in (x.data_ptr(), y.data_ptr())
                        if block["state"] == "active_allocated" and block["size"] >= size and is_other:
                            to, source = ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(address)
                            runtime.cudaMemcpy(to, source, ctypes.c_size_t(size), 3)
                            return y
                        address += block["size"]
                return y.zero_()
        """,
        WRONG_VALUES,
        CRASHED,
        needs=CUDA,
        ways=(24,),
    ),
    cheat(
        "opens the judge's memory as its library loads",
        "relu.py",
        _rows(
            """
            #include <cstdio>
            #include <unistd.h>
            struct Attack {
              Attack() {
                char path[64];
                std::snprintf(path, sizeof path, "/proc/%d/mem", getppid());
                if (FILE* memory = std::fopen(path, "r+b")) std::fclose(memory);
              }
            };
            static Attack attack;
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              cudaMemsetAsync(reinterpret_cast<void*>(y), 0, rows * columns * 4, reinterpret_cast<cudaStream_t>(stream));
            }
            """
        ),
        WRONG_VALUES,
        REACHES_OUTSIDE,
        needs=CUDA,
        ways=(25,),
    ),
    cheat(
        "resets the device",
        "relu.py",
        _rows("void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) { cudaDeviceReset(); }"),
        CRASHED,
        WRONG_VALUES,
        needs=CUDA,
        ways=(25,),
    ),
    cheat(
        "writes to memory that is not there",
        "relu.py",
        _rows(
            """
            __global__ void write(float* y) { y[int64_t(1) << 50] = 1; }
            void run(int64_t x, int64_t y, int64_t rows, int64_t columns, int64_t stream) {
              write<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(reinterpret_cast<float*>(y));
            }
            """
        ),
        CRASHED,
        WRONG_VALUES,
        needs=CUDA,
    ),
    cheat(
        "works in place in CUDA",
        "relu.py",
        cuda(
            """
            __global__ void relu_kernel(float* x, int64_t n) {
              int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
              if (i < n && x[i] < 0) x[i] = 0;
            }
            void relu(int64_t x, int64_t n, int64_t stream) {
              cudaStream_t current = reinterpret_cast<cudaStream_t>(stream);
              relu_kernel<<<(n + 255) / 256, 256, 0, current>>>(reinterpret_cast<float*>(x), n);
            }
            """,
            "void relu(int64_t x, int64_t n, int64_t stream)",
        )
        + f"""
{_CLASS}    def forward(self, x):
        native.relu(x.data_ptr(), x.numel(), {_STREAM})
        return x
""",
        INPUT_MODIFIED,
        OVERWRITTEN_RESULT,
        needs=CUDA,
    ),
)
