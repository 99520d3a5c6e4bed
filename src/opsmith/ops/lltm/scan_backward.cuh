// The kernel that runs all steps of a sequence's backward, from the last to the first.
//
// As in the forward a cluster of blocks takes a slice of the batch. In a step each block makes the gradients of its own
// units' gates, multiplies them by its rows of the weight, and sends to every block the summands for that block's
// units; a unit's owner adds them up in the order of the blocks. Two places for the summands take turns, for the same
// reason as the forward's two copies.
#pragma once

#include "pointwise.h"
#include "scan_products.cuh"
#include "sequence_gpu.h"

namespace opsmith::ops::lltm {

namespace {

// Shared memory, in floats: twice the summands of all blocks, then the gradients of the own gates.
template <class T, int columns, int rows>
struct BackwardMemory {
  using Shape = ScanShape<T>;
  using Product = BackwardProduct<T, columns>;
  static constexpr int sums = rows * Shape::sum_stride;        // from one block
  static constexpr int place = columns / Shape::units * sums;  // from all
  static constexpr int bytes_in_use = 2 * place * sizeof(float) + rows * Product::stride * sizeof(T);
  static constexpr int weight_bytes = WeightRows<T, columns>::bytes;  // before the first step only
  static constexpr int bytes = bytes_in_use > weight_bytes ? bytes_in_use : weight_bytes;
};

template <class T, int columns, int rows>
__global__ void __launch_bounds__(scan_threads, 1) scan_backward_steps(ScanBackward<T> to, int blocks) {
#if __CUDA_ARCH__ >= 900
  using Shape = ScanShape<T>;
  using Memory = BackwardMemory<T, columns, rows>;
  using Product = BackwardProduct<T, columns>;
  constexpr int width = Shape::width, groups = Shape::units / width;
  constexpr int rows_a_round = scan_threads / groups, rounds = (rows + rows_a_round - 1) / rows_a_round;
  extern __shared__ __align__(16) float memory[];
  T* const own_gates = reinterpret_cast<T*>(memory + 2 * Memory::place);

  const int block = blockIdx.x % blocks;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x / blocks) * rows;
  const int64_t steps = to.cells.size[0], batch = to.cells.size[1], state = to.cells.size[2];
  const int unit = threadIdx.x % groups * width;  // of the block's; this thread's first
  const int64_t global_unit = static_cast<int64_t>(block) * Shape::units + unit;
  const auto row_of = [&](int round) { return static_cast<int>(threadIdx.x) / groups + round * rows_a_round; };
  const auto is_there = [&](int round, int k) {
    return row_of(round) < rows && first_row + row_of(round) < batch && global_unit + k < state;
  };

  // What a step reads from memory. With one round to a thread it is loaded a step ahead; more would not fit the
  // registers beside the weight.
  struct Saved {
    T grad_hidden[width];
    T gates[3][width];
    T cell[width];
  };
  constexpr bool is_ahead = rounds == 1;
  const auto load = [&](int64_t step, int round) {
    Saved saved;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const int64_t row = first_row + row_of(round), column = global_unit + k;
      const bool there = is_there(round, k);
      saved.grad_hidden[k] = there ? to.grad_hiddens(step, row, column) : T(0.0f);
      saved.cell[k] = there ? to.cells(step, row, column) : T(0.0f);
#pragma unroll
      for (int gate = 0; gate < 3; ++gate) {
        saved.gates[gate][k] = there ? to.gates(step, row, gate * state + column) : T(0.0f);
      }
    }
    return saved;
  };

  Product product;
  T* const weight_rows = reinterpret_cast<T*>(memory);
  WeightRows<T, columns>::load(to.weight, block, weight_rows);
  __syncthreads();
  product.load(weight_rows);
  __syncthreads();
  for (int n = threadIdx.x; n < Memory::place; n += scan_threads) memory[n] = 0.0f;  // no step sends to the last one
  float grad_cell[rounds][width];
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      grad_cell[round][k] =
          is_there(round, k) ? static_cast<float>(to.grad_last_cell(first_row + row_of(round), global_unit + k)) : 0.0f;
    }
  }
  Saved ahead;
  if constexpr (is_ahead) ahead = load(steps - 1, 0);
  gpu::cluster_arrive();  // every block has started before another writes to its memory
  gpu::cluster_wait();

  const auto from_next_step = [&](const float* place, int round, int k) {
    float sum = 0.0f;
    for (int other = 0; other < blocks; ++other) {
      sum += place[other * Memory::sums + row_of(round) * Shape::sum_stride + unit + k];
    }
    return sum;
  };
  float *received = memory, *sent = memory + Memory::place;
#pragma unroll 1
  for (int64_t step = steps - 1; step >= 0; --step) {
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      if (row_of(round) >= rows) break;
      Saved saved;
      if constexpr (is_ahead) {
        saved = ahead;
      } else {
        saved = load(step, round);
      }
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float grad_hidden = static_cast<float>(saved.grad_hidden[k]) + from_next_step(received, round, k);
        const LltmGradient<float> gradient =
            lltm_step_backward<float>(grad_hidden, grad_cell[round][k], static_cast<float>(saved.gates[0][k]),
                                      static_cast<float>(saved.gates[1][k]), static_cast<float>(saved.gates[2][k]),
                                      static_cast<float>(saved.cell[k]));
        grad_cell[round][k] = gradient.cell;
        const T grads[3] = {static_cast<T>(gradient.i), static_cast<T>(gradient.o), static_cast<T>(gradient.c)};
        const bool there = is_there(round, k);
#pragma unroll
        for (int gate = 0; gate < 3; ++gate) {
          // A unit that is not there has a weight of 0, and what meets that 0 must not be an infinity.
          own_gates[row_of(round) * Product::stride + gate * Shape::units + unit + k] = there ? grads[gate] : T(0.0f);
          if (!there) continue;
          to.grad_gates(step, first_row + row_of(round), gate * state + global_unit + k) = grads[gate];
        }
      }
    }
    if (is_ahead && step > 0) ahead = load(step - 1, 0);
    __syncthreads();
    product.multiply(own_gates, sent + block * Memory::sums, rows, blocks);
    gpu::cluster_arrive();
    gpu::cluster_wait();
    float* const place = received;
    received = sent;
    sent = place;
  }

#pragma unroll
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      if (!is_there(round, k)) continue;
      const int64_t row = first_row + row_of(round), column = global_unit + k;
      to.grad_hidden(row, column) = static_cast<T>(from_next_step(received, round, k));
      to.grad_cell(row, column) = static_cast<T>(grad_cell[round][k]);
    }
  }
#endif
}

}  // namespace

}  // namespace opsmith::ops::lltm
