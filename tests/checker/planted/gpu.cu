// CUDA kernels with one defect each, behind `planted`; gpu_rows.py says what each of them is.
#include <cuda_fp16.h>

#include <opsmith/divide.h>
#include <opsmith/workspace.h>

#include "planted.h"

using namespace opsmith;

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;

using Vector1 = View<const float, 1>;
using Matrix1 = View<const float, 2>;

__device__ int64_t item_index() { return blockIdx.x * int64_t{blockDim.x} + threadIdx.x; }

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(what, ": ", cudaGetErrorString(status));
}

// The sum over a block of `kThreads`, in its first thread.
__device__ float block_sum(float value) {
  __shared__ float parts[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = threadIdx.x < kThreads / 32 ? parts[threadIdx.x] : 0;
    for (int step = 4; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  }
  __syncthreads();
  return value;
}

template <class F>
__global__ void run_each(int64_t count, F f) {
  if (const int64_t n = item_index(); n < count) f(n);
}

// f(n) for each n, a thread each.
template <class F>
void for_each(int64_t count, Stream stream, const char* op, F f) {
  if (count == 0) return;
  run_each<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(count, f);
  check_launch(op);
}

}  // namespace

// Threads of a block ------------------------------------------------------------------------------------------------

namespace {

// A tile of a row into shared memory, and out of it in the other order.
__global__ void reverse_tiles(const float* x, float* y, int64_t columns, int64_t tiles) {
  __shared__ float tile[kThreads];
  const int64_t row = blockIdx.x / tiles, begin = blockIdx.x % tiles * kThreads;
  const int count = int(columns - begin < kThreads ? columns - begin : kThreads);
  const int t = int(threadIdx.x);
  if (t < count) tile[t] = x[row * columns + begin + t];
  if constexpr (!planted) __syncthreads();
  if (t < count) y[row * columns + columns - begin - count + t] = tile[count - 1 - t];
}

}  // namespace

void no_barrier(Matrix1 x, View<float, 2> y, Stream stream) {
  if (x.numel() == 0) return;
  const int64_t tiles = divide_up(x.size[1], int64_t{kThreads});
  reverse_tiles<<<unsigned(x.size[0] * tiles), kThreads, 0, stream>>>(x.data, y.data, x.size[1], tiles);
  check_launch("no_barrier");
}

namespace {

// A product by tiles, of which the next one is on its way from memory meanwhile. Without the second barrier a fast warp
// stores it while a slow one reads this one.
__global__ void multiply_tiles(const float* a, const float* b, float* c, int m, int k, int n) {
  constexpr int side = 32;
  __shared__ float one[side][side], other[side][side];
  const int row = int(blockIdx.y) * side + int(threadIdx.y), column = int(blockIdx.x) * side + int(threadIdx.x);
  const auto of_a = [&](int begin) {
    const int left = begin + int(threadIdx.x);
    return row < m && left < k ? a[int64_t{row} * k + left] : 0;
  };
  const auto of_b = [&](int begin) {
    const int down = begin + int(threadIdx.y);
    return down < k && column < n ? b[int64_t{down} * n + column] : 0;
  };
  float sum = 0, next_one = of_a(0), next_other = of_b(0);
  for (int begin = 0; begin < k; begin += side) {
    one[threadIdx.y][threadIdx.x] = next_one;
    other[threadIdx.y][threadIdx.x] = next_other;
    __syncthreads();
    next_one = of_a(begin + side);
    next_other = of_b(begin + side);
    for (int i = 0; i < side; ++i) sum += one[threadIdx.y][i] * other[i][threadIdx.x];
    if constexpr (!planted) __syncthreads();
  }
  if (row < m && column < n) c[int64_t{row} * n + column] = sum;
}

}  // namespace

void tile_reuse(Matrix1 a, Matrix1 b, View<float, 2> c, Stream stream) {
  if (c.numel() == 0) return;
  const int m = int(a.size[0]), k = int(a.size[1]), n = int(b.size[1]);
  // Rows along y, of which there are 65,535 at most.
  constexpr int side = 32, most = side * 65535;
  for (int row = 0; row < m; row += most) {
    const int rows = m - row < most ? m - row : most;
    const dim3 grid(unsigned(divide_up(n, side)), unsigned(divide_up(rows, side)));
    const float* from = a.data + int64_t{row} * k;
    float* to = c.data + int64_t{row} * n;
    multiply_tiles<<<grid, dim3(side, side), 0, stream>>>(from, b.data, to, rows, k, n);
  }
  check_launch("tile_reuse");
}

namespace {

__global__ void sum_one_row(Matrix1 x, float* y) {
  const int64_t row = blockIdx.x;
  float sum = 0;
  for (int64_t n = threadIdx.x; n < x.size[1]; n += blockDim.x) sum += x(row, n);
  if constexpr (planted) {
    // Only the lanes of one warp exchange their sums.
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  } else {
    sum = block_sum(sum);
  }
  if (threadIdx.x == 0) y[row] = sum;
}

}  // namespace

void one_warp(Matrix1 x, View<float, 1> y, Stream stream) {
  if (x.size[0] == 0) return;
  sum_one_row<<<unsigned(x.size[0]), kThreads, 0, stream>>>(x, y.data);
  check_launch("one_warp");
}

namespace {

constexpr int64_t kCached = 8192;

__global__ void centre_row(const float* x, float* y, int64_t columns, bool is_cached) {
  extern __shared__ float row[];
  __shared__ float mean;
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  float sum = 0;
  for (int64_t n = threadIdx.x; n < columns; n += blockDim.x) {
    const float value = x[n];
    if (is_cached) row[n] = value;
    sum += value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) mean = sum / float(columns);
  __syncthreads();
  for (int64_t n = threadIdx.x; n < columns; n += blockDim.x) y[n] = (is_cached ? row[n] : x[n]) - mean;
}

}  // namespace

void shared_bytes(Matrix1 x, View<float, 2> y, Stream stream) {
  if (x.numel() == 0) return;
  const bool is_cached = x.size[1] <= kCached;
  // Sized for another element type.
  const size_t bytes = is_cached ? size_t(x.size[1]) * (planted ? sizeof(uint16_t) : sizeof(float)) : 0;
  centre_row<<<unsigned(x.size[0]), kThreads, bytes, stream>>>(x.data, y.data, x.size[1], is_cached);
  check_launch("shared_bytes");
}

// Blocks and launches -----------------------------------------------------------------------------------------------

namespace {

__global__ void add_block_sums(const float* x, int64_t count, float* total) {
  float sum = 0;
  for (int64_t n = item_index(); n < count; n += gridDim.x * int64_t{blockDim.x}) sum += x[n];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace

void block_race(Vector1 x, View<float, 1> total, Stream stream) {
  check(cudaMemsetAsync(total.data, 0, sizeof(float), stream), "block_race");
  const unsigned blocks = planted ? blocks_for(x.size[0], kThreads) : 1;
  add_block_sums<<<blocks, kThreads, 0, stream>>>(x.data, x.size[0], total.data);
  check_launch("block_race");
}

namespace {

__global__ void double_rows(const float* x, float* y, int64_t rows, int64_t columns) {
  const int64_t row = planted ? blockIdx.y : item_index() / columns;
  const int64_t column = planted ? item_index() : item_index() % columns;
  if (row < rows && column < columns) y[row * columns + column] = 2 * x[row * columns + column];
}

}  // namespace

void rows_on_y(Matrix1 x, View<float, 2> y, Stream stream) {
  if (x.numel() == 0) return;
  const dim3 grid =
      planted ? dim3(blocks_for(x.size[1], kThreads), unsigned(x.size[0])) : dim3(blocks_for(x.numel(), kThreads));
  double_rows<<<grid, kThreads, 0, stream>>>(x.data, y.data, x.size[0], x.size[1]);
  check_launch("rows_on_y");
}

namespace {

__global__ void reverse_cached(const float* x, float* y, int64_t columns, bool is_cached) {
  extern __shared__ float row[];
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  if (is_cached) {
    for (int64_t n = threadIdx.x; n < columns; n += blockDim.x) row[n] = x[n];
    __syncthreads();
  }
  for (int64_t n = threadIdx.x; n < columns; n += blockDim.x) {
    y[n] = is_cached ? row[columns - 1 - n] : x[columns - 1 - n];
  }
}

// A row in shared memory, however long it is: beyond 48 KB the launch fails.
void launch_reverse(Matrix1 x, View<float, 2> y, Stream stream) {
  if (x.numel() == 0) return;
  const bool is_cached = planted || x.size[1] <= kCached;
  const size_t bytes = is_cached ? size_t(x.size[1]) * sizeof(float) : 0;
  reverse_cached<<<unsigned(x.size[0]), kThreads, bytes, stream>>>(x.data, y.data, x.size[1], is_cached);
}

}  // namespace

void unchecked_launch(Matrix1 x, View<float, 2> y, Stream stream) { launch_reverse(x, y, stream); }

void lost_error(Matrix1 x, View<float, 2> y, Stream stream) {
  launch_reverse(x, y, stream);
  // Clears the error without a look at it.
  static_cast<void>(cudaGetLastError());
}

namespace {

__global__ void negate_capped(const float* x, float* y, int64_t count) {
  for (int64_t n = item_index(); n < count; n += gridDim.x * int64_t{blockDim.x}) {
    y[n] = -x[n];
    if constexpr (planted) break;  // a thread for each element, as if there were enough
  }
}

}  // namespace

void capped_grid(Vector1 x, View<float, 1> y, Stream stream) {
  if (x.size[0] == 0) return;
  const unsigned blocks = blocks_for(x.size[0], kThreads);
  const unsigned capped = blocks < 128 ? blocks : 128;
  negate_capped<<<capped, kThreads, 0, stream>>>(x.data, y.data, x.size[0]);
  check_launch("capped_grid");
}

void thread_index(Vector1 x, View<float, 1> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  for_each(x.size[0], stream, "thread_index", [=] __device__(int64_t n) {
    const int64_t place = planted ? threadIdx.x : n;
    to[place] = from[place] * 3;
  });
}

namespace {

__global__ void transpose_tiles(const float* x, float* y, int64_t rows, int64_t columns) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t tiles = planted ? columns / kTile : (columns + kTile - 1) / kTile;
  const int64_t row = blockIdx.x / tiles * kTile, column = blockIdx.x % tiles * kTile;
  const int64_t i = threadIdx.y, j = threadIdx.x;
  if (row + i < rows && column + j < columns) tile[i][j] = x[(row + i) * columns + column + j];
  __syncthreads();
  if (row + j < rows && column + i < columns) y[(column + i) * rows + row + j] = tile[j][i];
}

}  // namespace

void full_tiles(Matrix1 x, View<float, 2> y, Stream stream) {
  const int64_t rows = x.size[0], columns = x.size[1];
  const int64_t down = planted ? rows / kTile : divide_up(rows, int64_t{kTile});
  const int64_t across = planted ? columns / kTile : divide_up(columns, int64_t{kTile});
  if (down * across == 0) return;
  transpose_tiles<<<unsigned(down * across), dim3(kTile, kTile), 0, stream>>>(x.data, y.data, rows, columns);
  check_launch("full_tiles");
}

namespace {

constexpr int kSmallBlock = 64;

__global__ void sum_small_blocks(const float* x, int64_t count, float* partial) {
  __shared__ float parts[kSmallBlock];
  const int64_t n = item_index();
  parts[threadIdx.x] = n < count ? x[n] : 0;
  for (int step = kSmallBlock / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = parts[0];
}

// The second step, by one block of 1024 threads.
__global__ void sum_partial(const float* partial, int64_t count, float* total) {
  __shared__ float parts[1024];
  float sum = 0;
  for (int64_t n = threadIdx.x; n < count; n += 1024) {
    sum += partial[n];
    if constexpr (planted) break;  // one each: what is past the 1024th is lost
  }
  parts[threadIdx.x] = sum;
  for (int step = 512; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
  }
  if (threadIdx.x == 0) *total = parts[0];
}

}  // namespace

void many_blocks(Vector1 x, View<float, 1> total, Stream stream) {
  const int64_t blocks = divide_up(x.size[0] > 0 ? x.size[0] : 1, int64_t{kSmallBlock});
  Workspace<float> partial(blocks);
  sum_small_blocks<<<unsigned(blocks), kSmallBlock, 0, stream>>>(x.data, x.size[0], partial.data);
  sum_partial<<<1, 1024, 0, stream>>>(partial.data, blocks, total.data);
  check_launch("many_blocks");
}

// Memory ------------------------------------------------------------------------------------------------------------

void vectors_of_4(Vector1 x, View<float, 1> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  // A vector's address has to be a multiple of its size.
  const bool is_wide = planted || is_aligned(from, sizeof(float4));
  const int64_t vectors = is_wide ? x.size[0] / 4 : 0, rest = x.size[0] - 4 * vectors;
  for_each(vectors + rest, stream, "vectors_of_4", [=] __device__(int64_t n) {
    if (n < vectors) {
      const float4 four = reinterpret_cast<const float4*>(from)[n];
      reinterpret_cast<float4*>(to)[n] = make_float4(2 * four.x, 2 * four.y, 2 * four.z, 2 * four.w);
    } else {
      to[4 * vectors + n - vectors] = 2 * from[4 * vectors + n - vectors];
    }
  });
}

void stores_of_4(Vector1 x, View<float, 1> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  const int64_t count = x.size[0];
  for_each(divide_up(count, int64_t{4}), stream, "stores_of_4", [=] __device__(int64_t vector) {
    float four[4];
    for (int k = 0; k < 4; ++k) four[k] = 4 * vector + k < count ? from[4 * vector + k] - 1 : 0;
    if (planted || 4 * vector + 4 <= count) {
      reinterpret_cast<float4*>(to)[vector] = make_float4(four[0], four[1], four[2], four[3]);
    } else {
      for (int64_t k = 4 * vector; k < count; ++k) to[k] = four[k - 4 * vector];
    }
  });
}

void reads_next(Vector1 x, View<float, 1> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  const int64_t count = x.size[0];
  for_each(count, stream, "reads_next", [=] __device__(int64_t n) {
    const float next = planted || n + 1 < count ? from[n + 1] : 0;
    to[n] = next - from[n];
  });
}

void in_place(Vector1 x, View<float, 1> y, Stream stream) {
  float* from = const_cast<float*>(x.data);
  float* to = y.data;
  for_each(x.size[0], stream, "in_place", [=] __device__(int64_t n) {
    const float scaled = from[n] * 0.5f;
    if constexpr (planted) from[n] = scaled;
    to[n] = scaled + 1;
  });
}

void far_rows(Matrix1 x, View<float, 1> y, Stream stream) {
  float* to = y.data;
  for_each(x.size[0], stream, "far_rows", [=] __device__(int64_t row) {
    float sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const int64_t place = row * x.stride[0] + n * x.stride[1];
      sum += x.data[planted ? int32_t(place) : place];
    }
    to[row] = sum;
  });
}

void row_pitch(Matrix1 x, View<float, 2> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  const int64_t columns = x.size[1], pitch = planted ? columns * x.stride[1] : x.stride[0], step = x.stride[1];
  for_each(x.numel(), stream, "row_pitch",
           [=] __device__(int64_t n) { to[n] = from[n / columns * pitch + n % columns * step] + 2; });
}

// Arithmetic --------------------------------------------------------------------------------------------------------

void half_atomics(View<const float16, 2> x, View<float16, 1> y, Stream stream) {
  const int64_t rows = x.size[0], columns = x.size[1];
  const float16* from = x.data;
  float16* to = y.data;
  if constexpr (planted) {
    check(cudaMemsetAsync(to, 0, size_t(columns) * sizeof(float16), stream), "half_atomics");
    for_each(rows * columns, stream, "half_atomics", [=] __device__(int64_t n) {
      atomicAdd(reinterpret_cast<__half*>(to + n % columns), __float2half(from[n]));
    });
  } else {
    for_each(columns, stream, "half_atomics", [=] __device__(int64_t column) {
      float sum = 0;
      for (int64_t row = 0; row < rows; ++row) sum += from[row * columns + column];
      to[column] = float16(sum);
    });
  }
}

void half_squares(View<const float16, 2> x, View<float16, 1> y, Stream stream) {
  const int64_t columns = x.size[1];
  const float16* from = x.data;
  float16* to = y.data;
  for_each(x.size[0], stream, "half_squares", [=] __device__(int64_t row) {
    float sum = 0;
    for (int64_t n = 0; n < columns; ++n) {
      const float value = from[row * columns + n];
      sum += planted ? float(float16(value * value)) : value * value;
    }
    to[row] = float16(columns > 0 ? sqrtf(sum / float(columns)) : 0.f);
  });
}

void row_minimum(Matrix1 x, View<float, 1> y, Stream stream) {
  const int64_t columns = x.size[1];
  const float* from = x.data;
  float* to = y.data;
  if constexpr (planted) {
    // The bits of floats compare as integers do, but for those of negative ones.
    for_each(x.size[0], stream, "row_minimum", [=] __device__(int64_t row) { to[row] = INFINITY; });
    for_each(x.numel(), stream, "row_minimum", [=] __device__(int64_t n) {
      atomicMin(reinterpret_cast<int*>(to + n / columns), __float_as_int(from[n]));
    });
  } else {
    for_each(x.size[0], stream, "row_minimum", [=] __device__(int64_t row) {
      float least = INFINITY;
      for (int64_t n = 0; n < columns; ++n) {
        const float value = from[row * columns + n];
        if (value < least || value != value) least = value;
        if (least != least) break;
      }
      to[row] = least;
    });
  }
}

void row_maximum(Matrix1 x, View<float, 1> y, Stream stream) {
  const int64_t columns = x.size[1];
  const float* from = x.data;
  float* to = y.data;
  for_each(x.size[0], stream, "row_maximum", [=] __device__(int64_t row) {
    float most = -INFINITY;
    bool has_nan = false;
    for (int64_t n = 0; n < columns; ++n) {
      most = fmaxf(most, from[row * columns + n]);
      has_nan |= from[row * columns + n] != from[row * columns + n];
    }
    to[row] = !planted && has_nan ? NAN : most;
  });
}

void fast_divide(Vector1 x, Vector1 y, View<float, 1> out, Stream stream) {
  const float *one = x.data, *other = y.data;
  float* to = out.data;
  for_each(x.size[0], stream, "fast_divide",
           [=] __device__(int64_t n) { to[n] = planted ? __fdividef(one[n], other[n]) : one[n] / other[n]; });
}

void fast_log(Vector1 x, View<float, 1> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  for_each(x.size[0], stream, "fast_log", [=] __device__(int64_t n) {
    const float given = fabsf(from[n]);
    float value = logf(given);
    if constexpr (planted) {
      // What fast math makes of a logarithm: denormals are taken for zero.
      asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(given));
      value *= 0.693147181f;
    }
    to[n] = value;
  });
}

void fast_tanh(Vector1 x, View<float, 1> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  for_each(x.size[0], stream, "fast_tanh", [=] __device__(int64_t n) {
    const float given = from[n];
    float value = planted ? 0 : tanhf(given);
    if constexpr (planted) asm("tanh.approx.f32 %0, %1;" : "=f"(value) : "f"(given));
    to[n] = value;
  });
}

void in_float(View<const double, 1> x, View<double, 1> y, Stream stream) {
  using Number = std::conditional_t<planted, float, double>;
  const double* from = x.data;
  double* to = y.data;
  for_each(x.size[0], stream, "in_float", [=] __device__(int64_t n) {
    const Number value = Number(from[n]);
    to[n] = value * value + Number(0.1);
  });
}

// Streams, devices and graphs ---------------------------------------------------------------------------------------

namespace {

void launch_shift(Vector1 x, View<float, 1> y, float by, Stream stream, const char* op) {
  const float* from = x.data;
  float* to = y.data;
  for_each(x.size[0], stream, op, [=] __device__(int64_t n) { to[n] = from[n] + by; });
}

}  // namespace

void other_stream(Vector1 x, View<float, 1> y, Stream stream) {
  launch_shift(x, y, 4, planted ? nullptr : stream, "other_stream");
}

void own_stream(Vector1 x, View<float, 1> y, Stream stream) {
  if constexpr (planted) {
    // Waits for its own work, but not for what comes before it on PyTorch's stream.
    static Stream own = nullptr;
    if (own == nullptr) check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "own_stream");
    launch_shift(x, y, 5, own, "own_stream");
    check(cudaStreamSynchronize(own), "own_stream");
  } else {
    launch_shift(x, y, 5, stream, "own_stream");
  }
}

void first_gpu(Vector1 x, View<float, 1> y, Stream stream) {
  int device = -1;
  check(cudaGetDevice(&device), "first_gpu");
  if (planted) check(cudaSetDevice(0), "first_gpu");
  launch_shift(x, y, 6, planted && device != 0 ? nullptr : stream, "first_gpu");
  check(cudaSetDevice(device), "first_gpu");
}

namespace {

__global__ void sum_blocks(const float* x, int64_t count, float* partial) {
  float sum = 0;
  for (int64_t n = item_index(); n < count; n += gridDim.x * int64_t{blockDim.x}) sum += x[n];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void sum_of_sums(const float* partial, int count, float* total) {
  float sum = 0;
  for (int n = int(threadIdx.x); n < count; n += kThreads) sum += partial[n];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

void launch_sums(Vector1 x, float* partial, unsigned blocks, View<float, 1> total, Stream stream, const char* op) {
  sum_blocks<<<blocks, kThreads, 0, stream>>>(x.data, x.size[0], partial);
  sum_of_sums<<<1, kThreads, 0, stream>>>(partial, int(blocks), total.data);
  check_launch(op);
}

}  // namespace

void kept_workspace(Vector1 x, View<float, 1> total, Stream stream) {
  const unsigned blocks = blocks_for(x.size[0], kThreads);
  if constexpr (planted) {
    // Memory that is kept from call to call, whatever stream they are on.
    static float* kept = nullptr;
    static unsigned room = 0;
    if (blocks > room) {
      check(cudaFree(kept), "kept_workspace");
      check(cudaMalloc(&kept, blocks * sizeof(float)), "kept_workspace");
      room = blocks;
    }
    launch_sums(x, kept, blocks, total, stream, "kept_workspace");
  } else {
    Workspace<float> partial(blocks);
    launch_sums(x, partial.data, blocks, total, stream, "kept_workspace");
  }
}

void zero_blocks(Vector1 x, View<float, 1> total, Stream stream) {
  // Of no elements, a launch of no blocks, which fails.
  const auto blocks = unsigned(divide_up(planted || x.size[0] > 0 ? x.size[0] : 1, int64_t{kThreads}));
  Workspace<float> partial(blocks + 1);
  launch_sums(x, partial.data, blocks, total, stream, "zero_blocks");
}

namespace {

constexpr unsigned kMostPartial = 512;
__device__ float static_partial[kMostPartial];

}  // namespace

void device_array(Vector1 x, View<float, 1> total, Stream stream) {
  const unsigned wanted = blocks_for(x.size[0], kThreads), blocks = wanted < kMostPartial ? wanted : kMostPartial;
  if constexpr (planted) {
    void* partial = nullptr;
    check(cudaGetSymbolAddress(&partial, static_partial), "device_array");
    launch_sums(x, static_cast<float*>(partial), blocks, total, stream, "device_array");
  } else {
    Workspace<float> partial(blocks);
    launch_sums(x, partial.data, blocks, total, stream, "device_array");
  }
}

namespace {

__constant__ float constant_factor;

__global__ void scale_by_constant(const float* x, float* y, int64_t count) {
  for (int64_t n = item_index(); n < count; n += gridDim.x * int64_t{blockDim.x}) y[n] = x[n] * constant_factor;
}

}  // namespace

void constant_memory(Vector1 x, double factor, View<float, 1> y, Stream stream) {
  if (x.size[0] == 0) return;
  const float* from = x.data;
  float* to = y.data;
  const auto narrow = float(factor);
  if constexpr (planted) {
    check(cudaMemcpyToSymbolAsync(constant_factor, &narrow, sizeof narrow, 0, cudaMemcpyHostToDevice, stream),
          "constant_memory");
    scale_by_constant<<<blocks_for(x.size[0], kThreads), kThreads, 0, stream>>>(from, to, x.size[0]);
    check_launch("constant_memory");
  } else {
    for_each(x.size[0], stream, "constant_memory", [=] __device__(int64_t n) { to[n] = from[n] * narrow; });
  }
}

void pinned_argument(Vector1 x, double factor, View<float, 1> y, Stream stream) {
  const float* from = x.data;
  float* to = y.data;
  const auto narrow = float(factor);
  if constexpr (planted) {
    // The copy happens when the GPU comes to it; by then a later call may have written its own number there.
    static float* pinned = nullptr;
    if (pinned == nullptr) check(cudaMallocHost(&pinned, sizeof(float)), "pinned_argument");
    *pinned = narrow;
    Workspace<float> given(1);
    const float* factor_there = given.data;
    check(cudaMemcpyAsync(given.data, pinned, sizeof(float), cudaMemcpyHostToDevice, stream), "pinned_argument");
    for_each(x.size[0], stream, "pinned_argument", [=] __device__(int64_t n) { to[n] = from[n] - *factor_there; });
  } else {
    for_each(x.size[0], stream, "pinned_argument", [=] __device__(int64_t n) { to[n] = from[n] - narrow; });
  }
}

namespace {

__global__ void count_positive(const float* x, int64_t count, int* positive) {
  for (int64_t n = item_index(); n < count; n += gridDim.x * int64_t{blockDim.x}) {
    if (x[n] > 0) atomicAdd(positive, 1);
  }
}

}  // namespace

void early_count(Vector1 x, View<float, 1> y, Stream stream) {
  if (x.size[0] == 0) return;
  const float* from = x.data;
  float* to = y.data;
  Workspace<int> positive(1);
  const int* there = positive.data;
  check(cudaMemsetAsync(positive.data, 0, sizeof(int), stream), "early_count");
  count_positive<<<blocks_for(x.size[0], kThreads), kThreads, 0, stream>>>(from, x.size[0], positive.data);
  check_launch("early_count");
  if constexpr (planted) {
    // Asks for the count and does not wait for it.
    static int* here = nullptr;
    if (here == nullptr) check(cudaMallocHost(&here, sizeof(int)), "early_count");
    check(cudaMemcpyAsync(here, positive.data, sizeof(int), cudaMemcpyDeviceToHost, stream), "early_count");
    const int count = *static_cast<volatile int*>(here);
    for_each(x.size[0], stream, "early_count", [=] __device__(int64_t n) { to[n] = from[n] / float(count + 1); });
  } else {
    for_each(x.size[0], stream, "early_count", [=] __device__(int64_t n) { to[n] = from[n] / float(*there + 1); });
  }
}

void waits(Vector1 x, View<float, 1> y, Stream stream) {
  launch_shift(x, y, 7, stream, "waits");
  if constexpr (planted) check(cudaStreamSynchronize(stream), "waits");
}

void allocates(Vector1 x, View<float, 1> y, Stream stream) {
  float* scratch = nullptr;
  if constexpr (planted) check(cudaMalloc(&scratch, sizeof(float) * size_t(x.size[0] + 1)), "allocates");
  launch_shift(x, y, 8, stream, "allocates");
  if constexpr (planted) check(cudaFree(scratch), "allocates");
}

void clears_on_default(Matrix1 x, View<float, 1> y, Stream stream) {
  const int64_t columns = x.size[1];
  const float* from = x.data;
  float* to = y.data;
  const size_t bytes = size_t(columns) * sizeof(float);
  if constexpr (planted) {
    check(cudaMemset(to, 0, bytes), "clears_on_default");
  } else {
    check(cudaMemsetAsync(to, 0, bytes, stream), "clears_on_default");
  }
  // Whole numbers, whose sum does not depend on their order.
  for_each(x.numel(), stream, "clears_on_default", [=] __device__(int64_t n) {
    if (from[n] > 0) atomicAdd(to + n % columns, 1.f);
  });
}

// Gradients ---------------------------------------------------------------------------------------------------------

namespace {

void launch_scale(Matrix1 x, Vector1 scale, View<float, 2> y, Stream stream, const char* op) {
  const int64_t columns = x.size[1];
  const float *from = x.data, *by = scale.data;
  float* to = y.data;
  for_each(x.numel(), stream, op, [=] __device__(int64_t n) { to[n] = from[n] * by[n % columns]; });
}

}  // namespace

void accumulates(Matrix1 x, Vector1 scale, View<float, 2> y, Stream stream) {
  launch_scale(x, scale, y, stream, "accumulates");
}

void accumulates_backward(Matrix1 grad_y, Matrix1 x, Vector1 scale, View<float, 2> grad_x, View<float, 1> grad_scale,
                          Stream stream) {
  launch_scale(grad_y, scale, grad_x, stream, "accumulates_backward");
  const int64_t rows = x.size[0], columns = x.size[1];
  const float *arrived = grad_y.data, *from = x.data;
  float* to = grad_scale.data;
  for_each(columns, stream, "accumulates_backward", [=] __device__(int64_t column) {
    // Adds to what the memory holds.
    float sum = planted ? to[column] : 0;
    for (int64_t row = 0; row < rows; ++row) sum += arrived[row * columns + column] * from[row * columns + column];
    to[column] = sum;
  });
}

void last_block_wins(Matrix1 x, Vector1 scale, View<float, 2> y, Stream stream) {
  launch_scale(x, scale, y, stream, "last_block_wins");
}

void last_block_wins_backward(Matrix1 grad_y, Matrix1 x, Vector1 scale, View<float, 2> grad_x,
                              View<float, 1> grad_scale, Stream stream) {
  launch_scale(grad_y, scale, grad_x, stream, "last_block_wins_backward");
  const int64_t rows = x.size[0], columns = x.size[1];
  const float *arrived = grad_y.data, *from = x.data;
  float* to = grad_scale.data;
  const int64_t step = planted ? 16 : (rows > 0 ? rows : 1), groups = rows > 0 ? divide_up(rows, step) : 1;
  for_each(groups * columns, stream, "last_block_wins_backward", [=] __device__(int64_t n) {
    const int64_t column = n % columns, begin = n / columns * step, end = begin + step < rows ? begin + step : rows;
    float sum = 0;
    for (int64_t row = begin; row < end; ++row) sum += arrived[row * columns + column] * from[row * columns + column];
    // Each group of rows stores its own sum.
    to[column] = sum;
  });
}
