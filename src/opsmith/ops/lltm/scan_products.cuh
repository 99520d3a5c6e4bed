// How a block of the kernels of a whole sequence multiplies: its share of the recurrent weight lies in the registers of
// its threads for all steps, and only the other factor comes from shared memory.
//
// A block owns `units` units and their 3 * units gates. The forward multiplies the hidden state of all units by the
// rows of its own gates. The backward multiplies the gradients of its own gates by the same rows, to all units: each
// block has a summand of every unit's gradient and sends it to the unit's owner, which is less to send than the
// gradients of all gates would be.
//
// 16-bit types go through the tensor cores: 64 units, batch rows by eights. Floats are multiplied as floats (the tensor
// cores would cut them to 10 bits): 32 units, one to a lane, batch rows by fours.
#pragma once

#include "../_gpu/async_copy.cuh"
#include "../_gpu/cluster.cuh"
#include "../_gpu/tensor_cores.cuh"

namespace opsmith::ops::lltm {

constexpr int scan_warps = 8;
constexpr int scan_threads = 32 * scan_warps;

// What depends on the element type alone.
template <class T>
struct ScanShape {
  static constexpr int units = 64;  // of one block
  static constexpr int width = 2;   // adjacent units that a thread takes in the pointwise part: 4 bytes to store
  static constexpr int rows_at_once = 8;
  // Rows that a cluster takes where fewer would not do for the batch, and how often the GPU may be filled with
  // clusters. Beyond that PyTorch's products, step by step, are faster: on an H200 from 128 rows of 512 units on.
  static constexpr int most_rows = 8;
  static constexpr int most_turns = 1;
  static constexpr int splits = 2;  // parts of the forward's sum, each made by other warps
  static constexpr int pad = 8;     // 16 bytes to the end of a row: eight rows then lie in eight different banks
  // Of the rows of float sums: lanes that hold two adjacent rows of eight units then store without bank conflicts.
  static constexpr int sum_stride = units + 4;
};

template <>
struct ScanShape<float> {
  static constexpr int units = 32;
  static constexpr int width = 1;
  static constexpr int rows_at_once = 4;
  static constexpr int most_rows = 16;
  static constexpr int most_turns = 3;
  static constexpr int splits = 8;
  static constexpr int pad = 4;
  static constexpr int sum_stride = units + 4;
};

// The rows of the weight that belong to a block's gates, in shared memory: [3 * units][columns + pad], 0 where there is
// no such unit. From here each thread takes its share into registers; afterwards the memory serves other things.
template <class T, int columns>
struct WeightRows {
  using Shape = ScanShape<T>;
  static constexpr int rows = 3 * Shape::units;
  static constexpr int stride = columns + Shape::pad;
  static constexpr int bytes = rows * stride * sizeof(T);

  // Called by the whole block, before a barrier.
  static __device__ void load(const View<const T, 2>& from, int block, T* to) {
    constexpr int width = 16 / sizeof(T);
    const int64_t state = from.size[1];
    const bool can_copy = from.stride[1] == 1 && from.stride[0] % width == 0 && state % width == 0 &&
                          reinterpret_cast<uintptr_t>(from.data) % 16 == 0;
    const int step = can_copy ? width : 1;
    const int groups = columns / step;
#pragma unroll 4
    for (int n = threadIdx.x; n < rows * groups; n += scan_threads) {
      const int row = n / groups, column = n % groups * step;
      const int64_t unit = static_cast<int64_t>(block) * Shape::units + row % Shape::units;
      const bool is_there = unit < state && column < state;
      const T* const source = is_there ? &from(row / Shape::units * state + unit, column) : from.data;
      T* const target = to + row * stride + column;
      if (can_copy) {
        gpu::copy_async(target, source, is_there);
      } else {
        *target = is_there ? *source : T(0.0f);
      }
    }
    gpu::wait_for_copies();
  }
};

// The forward's product: sums[split][gate][row][unit] of the hidden state [rows][columns + pad], columns at least the
// number of all units and zero beyond them.
template <class T, int columns>
struct ForwardProduct {
  using Shape = ScanShape<T>;
  static constexpr int stride = columns + Shape::pad;
  static constexpr int tiles = columns / 16 / Shape::splits;  // of 16 columns, for one warp

  uint32_t weight[tiles][3][4];

  // A warp takes 16 units, their three gates, and the columns of its split.
  __device__ void load(const T* rows) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = warp / 4, unit = warp % 4 * 16;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int gate = 0; gate < 3; ++gate) {
        const int row = gate * Shape::units + unit + lane % 16, column = (split * tiles + tile) * 16 + lane / 16 * 8;
        gpu::load_matrices(weight[tile][gate],
                           gpu::shared_address(rows + row * WeightRows<T, columns>::stride + column));
      }
    }
  }

  __device__ void multiply(const T* hidden, float* sums, int rows) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = warp / 4, unit = warp % 4 * 16 + lane / 4;
    uint32_t address = gpu::shared_address(hidden + lane % 8 * stride + split * tiles * 16 + lane / 8 * 8);
#pragma unroll 1
    for (int row = 0; row < rows; row += 8, address += 8 * stride * sizeof(T)) {
      float sum[3][4] = {};
#pragma unroll
      for (int tile = 0; tile < tiles; tile += 2) {
        uint32_t b[4];
        gpu::load_matrices(b, address + tile * 16 * sizeof(T));
#pragma unroll
        for (int gate = 0; gate < 3; ++gate) gpu::multiply_add<T>(sum[gate], weight[tile][gate], b[0], b[1]);
#pragma unroll
        for (int gate = 0; gate < 3; ++gate) gpu::multiply_add<T>(sum[gate], weight[tile + 1][gate], b[2], b[3]);
      }
#pragma unroll
      for (int gate = 0; gate < 3; ++gate) {
        float* const to = sums + ((split * 3 + gate) * rows + row + lane % 4 * 2) * Shape::sum_stride + unit;
        to[0] = sum[gate][0];
        to[Shape::sum_stride] = sum[gate][1];
        to[8] = sum[gate][2];
        to[Shape::sum_stride + 8] = sum[gate][3];
      }
    }
  }
};

template <int columns>
struct ForwardProduct<float, columns> {
  using Shape = ScanShape<float>;
  static constexpr int stride = columns + Shape::pad;
  static constexpr int depth = columns / Shape::splits;  // columns of one warp

  float weight[3][depth];

  // A lane takes one unit's three gates, a warp the columns of its split.
  __device__ void load(const float* rows) {
    const int split = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int gate = 0; gate < 3; ++gate) {
      const float* const from =
          rows + (gate * Shape::units + lane) * WeightRows<float, columns>::stride + split * depth;
#pragma unroll
      for (int k = 0; k < depth; ++k) weight[gate][k] = from[k];
    }
  }

  __device__ void multiply(const float* hidden, float* sums, int rows) const {
    constexpr int at_once = Shape::rows_at_once;
    const int split = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
    for (int row = 0; row < rows; row += at_once) {
      const float* const from = hidden + row * stride + split * depth;
      float sum[3][at_once] = {};
#pragma unroll
      for (int k = 0; k < depth; k += 4) {
#pragma unroll
        for (int r = 0; r < at_once; ++r) {
          const float4 h = *reinterpret_cast<const float4*>(from + r * stride + k);
#pragma unroll
          for (int gate = 0; gate < 3; ++gate) {
            sum[gate][r] += weight[gate][k] * h.x;
            sum[gate][r] += weight[gate][k + 1] * h.y;
            sum[gate][r] += weight[gate][k + 2] * h.z;
            sum[gate][r] += weight[gate][k + 3] * h.w;
          }
        }
      }
#pragma unroll
      for (int gate = 0; gate < 3; ++gate) {
#pragma unroll
        for (int r = 0; r < at_once; ++r) {
          sums[((split * 3 + gate) * rows + row + r) * Shape::sum_stride + lane] = sum[gate][r];
        }
      }
    }
  }
};

// The backward's product: from grad_gates [rows][3 * units + pad] of the block's own gates to sums[row][unit] in the
// shared memory of every block of the cluster, at the place that belongs to this block's summands.
template <class T, int columns>
struct BackwardProduct {
  using Shape = ScanShape<T>;
  static constexpr int depth = 3 * Shape::units;
  static constexpr int stride = depth + Shape::pad;
  static constexpr int tiles = depth / 16;

  uint32_t weight[4][tiles][4];

  // A warp makes the summands of one block's units. Its matrix is the transpose of the weight's rows.
  __device__ void load(const T* rows) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const int row = tile * 16 + lane / 16 * 8 + lane % 8;
        const int column = warp * Shape::units + m * 16 + lane / 8 % 2 * 8;
        gpu::load_matrices<true>(weight[m][tile],
                                 gpu::shared_address(rows + row * WeightRows<T, columns>::stride + column));
      }
    }
  }

  __device__ void multiply(const T* grad_gates, const float* sums, int rows, int blocks) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp >= blocks) return;
    const uint32_t there = gpu::in_block(gpu::shared_address(sums), warp);
#pragma unroll 1
    for (int row = 0; row < rows; row += 8) {
      const uint32_t address = gpu::shared_address(grad_gates + (row + lane % 8) * stride + lane / 8 * 8);
      float sum[4][4] = {};
#pragma unroll
      for (int tile = 0; tile < tiles; tile += 2) {
        uint32_t b[4];
        gpu::load_matrices(b, address + tile * 16 * sizeof(T));
#pragma unroll
        for (int m = 0; m < 4; ++m) gpu::multiply_add<T>(sum[m], weight[m][tile], b[0], b[1]);
#pragma unroll
        for (int m = 0; m < 4; ++m) gpu::multiply_add<T>(sum[m], weight[m][tile + 1], b[2], b[3]);
      }
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int to = (row + lane % 4 * 2 + n % 2) * Shape::sum_stride + m * 16 + n / 2 * 8 + lane / 4;
          gpu::store_to_block(there + to * sizeof(float), __float_as_uint(sum[m][n]));
        }
      }
    }
  }
};

template <int columns>
struct BackwardProduct<float, columns> {
  using Shape = ScanShape<float>;
  static constexpr int depth = 3 * Shape::units;
  static constexpr int stride = depth + Shape::pad;
  // Blocks whose summands one warp makes: one after the other.
  static constexpr int targets = (columns / Shape::units + scan_warps - 1) / scan_warps;

  float weight[targets][depth];

  // A lane takes one unit of each of its warp's blocks.
  __device__ void load(const float* rows) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int target = 0; target < targets; ++target) {
      const float* const from = rows + (warp + target * scan_warps) * Shape::units + lane;
#pragma unroll
      for (int n = 0; n < depth; ++n) weight[target][n] = from[n * WeightRows<float, columns>::stride];
    }
  }

  __device__ void multiply(const float* grad_gates, const float* sums, int rows, int blocks) const {
    constexpr int at_once = Shape::rows_at_once;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int target = 0; target < targets; ++target) {
      const int block = warp + target * scan_warps;
      if (block >= blocks) return;
      const uint32_t there = gpu::in_block(gpu::shared_address(sums), block);
#pragma unroll 1
      for (int row = 0; row < rows; row += at_once) {
        float sum[at_once] = {};
#pragma unroll
        for (int n = 0; n < depth; n += 4) {
#pragma unroll
          for (int r = 0; r < at_once; ++r) {
            const float4 g = *reinterpret_cast<const float4*>(grad_gates + (row + r) * stride + n);
            sum[r] += weight[target][n] * g.x;
            sum[r] += weight[target][n + 1] * g.y;
            sum[r] += weight[target][n + 2] * g.z;
            sum[r] += weight[target][n + 3] * g.w;
          }
        }
#pragma unroll
        for (int r = 0; r < at_once; ++r) {
          const int to = (row + r) * Shape::sum_stride + lane;
          gpu::store_to_block(there + to * sizeof(float), __float_as_uint(sum[r]));
        }
      }
    }
  }
};

}  // namespace opsmith::ops::lltm
