// The kernel that runs all steps of a sequence's forward.
//
// A cluster of blocks takes a slice of the batch through all steps; clusters have nothing to tell each other. In a step
// each block multiplies the hidden state, of which it has a whole copy in shared memory, by the rows of its own units'
// gates, adds the input's part, and sends its units' new hidden state to the copies of all blocks of the cluster.
//
// Two copies take turns, so one barrier of the cluster is enough: whoever writes the hidden state of step t + 1 has
// passed the barrier after step t - 1, before which everybody was done with reading that copy.
#pragma once

#include "pointwise.h"
#include "scan_products.cuh"
#include "sequence_gpu.h"

namespace opsmith::ops::lltm {

namespace {

// Shared memory, in floats: sums, the bias of the block's gates, then the two copies of the hidden state.
template <class T, int columns, int rows>
struct ForwardMemory {
  using Shape = ScanShape<T>;
  using Product = ForwardProduct<T, columns>;
  static constexpr int sums = Shape::splits * 3 * rows * Shape::sum_stride;
  static constexpr int biases = 3 * Shape::units;
  static constexpr int copy = rows * Product::stride;
  static constexpr int bytes_in_use = (sums + biases) * sizeof(float) + 2 * copy * sizeof(T);
  static constexpr int weight_bytes = WeightRows<T, columns>::bytes;  // before the first step only
  static constexpr int bytes = bytes_in_use > weight_bytes ? bytes_in_use : weight_bytes;
};

template <class T, int columns, int rows>
__global__ void __launch_bounds__(scan_threads, 1) scan_steps(Scan<T> to, int blocks) {
#if __CUDA_ARCH__ >= 900
  using Shape = ScanShape<T>;
  using Memory = ForwardMemory<T, columns, rows>;
  using Product = ForwardProduct<T, columns>;
  constexpr int width = Shape::width, groups = Shape::units / width;
  constexpr int rows_a_round = scan_threads / groups, rounds = (rows + rows_a_round - 1) / rows_a_round;
  extern __shared__ __align__(16) float memory[];
  float* const sums = memory;
  float* const biases = memory + Memory::sums;
  T* const copies = reinterpret_cast<T*>(biases + Memory::biases);

  const int block = blockIdx.x % blocks;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x / blocks) * rows;
  const int64_t steps = to.hiddens.size[0], batch = to.hiddens.size[1], state = to.hiddens.size[2];
  const int unit = threadIdx.x % groups * width;  // of the block's; this thread's first
  const int64_t global_unit = static_cast<int64_t>(block) * Shape::units + unit;
  const auto row_of = [&](int round) { return static_cast<int>(threadIdx.x) / groups + round * rows_a_round; };
  const auto is_there = [&](int round, int k) {
    return row_of(round) < rows && first_row + row_of(round) < batch && global_unit + k < state;
  };

  Product product;
  T* const weight_rows = reinterpret_cast<T*>(memory);
  WeightRows<T, columns>::load(to.weight, block, weight_rows);
  __syncthreads();
  product.load(weight_rows);
  __syncthreads();
  for (int n = threadIdx.x; n < 2 * Memory::copy; n += scan_threads) {
    const int64_t row = first_row + n / Product::stride, column = n % Product::stride;
    copies[n] = n < Memory::copy && row < batch && column < state ? to.hidden(row, column) : T(0.0f);
  }
  for (int n = threadIdx.x; n < Memory::biases; n += scan_threads) {
    const int64_t of_unit = static_cast<int64_t>(block) * Shape::units + n % Shape::units;
    biases[n] = of_unit < state ? static_cast<float>(to.bias(n / Shape::units * state + of_unit)) : 0.0f;
  }
  float cell[rounds][width], input[rounds][3][width];
  const auto load_input = [&](int64_t step) {
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
#pragma unroll
        for (int gate = 0; gate < 3; ++gate) {
          input[round][gate][k] =
              is_there(round, k) ? to.input(step, first_row + row_of(round), gate * state + global_unit + k) : 0.0f;
        }
      }
    }
  };
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      cell[round][k] =
          is_there(round, k) ? static_cast<float>(to.cell(first_row + row_of(round), global_unit + k)) : 0.0f;
    }
  }
  load_input(0);
  gpu::cluster_arrive();  // every block has started, and its copies are there, before another writes to them
  gpu::cluster_wait();

#pragma unroll 1
  for (int64_t step = 0; step < steps; ++step) {
    const bool is_last = step + 1 == steps;
    product.multiply(copies + step % 2 * Memory::copy, sums, rows);
    __syncthreads();
    float gates[rounds][3][width];
    T hidden[rounds][width];
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      if (row_of(round) >= rows) break;
      const float* const from = sums + row_of(round) * Shape::sum_stride + unit;
#pragma unroll
      for (int k = 0; k < width; ++k) {
#pragma unroll
        for (int gate = 0; gate < 3; ++gate) {
          float sum = input[round][gate][k] + biases[gate * Shape::units + unit + k];
#pragma unroll
          for (int split = 0; split < Shape::splits; ++split) {
            sum += from[(split * 3 + gate) * rows * Shape::sum_stride + k];
          }
          gates[round][gate][k] = sum;
        }
        const float (&gate)[3][width] = gates[round];
        const LltmState<float> next = lltm_step<float>(gate[0][k], gate[1][k], gate[2][k], cell[round][k]);
        cell[round][k] = next.cell;
        // A unit that is not there has a weight of 0, and what meets that 0 must not be a NaN.
        hidden[round][k] = static_cast<T>(is_there(round, k) ? next.hidden : 0.0f);
      }
      if (is_last) continue;
      const T* const mine = copies + (step + 1) % 2 * Memory::copy + row_of(round) * Product::stride;
      uint32_t bits;
      __builtin_memcpy(&bits, hidden[round], sizeof(bits));
      const uint32_t address = gpu::shared_address(mine + global_unit);
      for (int other = 0; other < blocks; ++other) gpu::store_to_block(gpu::in_block(address, other), bits);
    }
    if (!is_last) gpu::cluster_arrive();
    // While the others arrive: what this step leaves in memory, and what the next one will read there.
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        if (!is_there(round, k)) continue;
        const int64_t row = first_row + row_of(round), column = global_unit + k;
#pragma unroll
        for (int gate = 0; gate < 3; ++gate) {
          to.gates(step, row, gate * state + column) = static_cast<T>(gates[round][gate][k]);
        }
        to.hiddens(step, row, column) = hidden[round][k];
        to.cells(step, row, column) = static_cast<T>(cell[round][k]);
        if (is_last) to.last_cell(row, column) = static_cast<T>(cell[round][k]);
      }
    }
    if (is_last) break;
    load_input(step + 1);
    gpu::cluster_wait();
  }
#endif
}

}  // namespace

}  // namespace opsmith::ops::lltm
