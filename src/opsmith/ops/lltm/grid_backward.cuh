// The kernel that runs all steps of a sequence's backward in one grid, for more units than a cluster serves: see
// grid_products.cuh.
//
// A block makes the gradients of its units' gates, and from the gates of all units the gradient that a step sends to
// the hidden state before it, for its units. The gates are three times as many as the units, so it has twice as many
// units as a block of the forward: half as many blocks read them.
#pragma once

#include "device.cuh"
#include "grid_products.cuh"
#include "pointwise.h"
#include "sequence_gpu.h"

namespace opsmith::ops::lltm {

namespace {

constexpr int backward_units = 16;   // of a block
constexpr int backward_columns = 2;  // tiles of columns

template <class T, int row_tiles>
__global__ void __launch_bounds__(grid_threads, 1)
    grid_backward(ScanBackward<T> to, uint4* copies, unsigned* arrivals) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Product = GridProduct<T, row_tiles, backward_columns, 3 * most_grid_units / (16 * grid_warps)>;
  extern __shared__ __align__(16) float sums[];
  const int64_t steps = to.grad_gates.size[0];
  const int batch = static_cast<int>(to.cells.size[1]), state = static_cast<int>(to.cells.size[2]), depth = 3 * state;
  const int first_unit = blockIdx.x * backward_units, copy_size = Product::rows * depth / 8;
  gpu::GridBarrier barrier(arrivals);
  Product product;
  product.load(depth, [&](int term, int column) { return to.weight(term, first_unit + column); });

  // Two times two adjacent units of a row, which this thread completes in every step.
  const int row = threadIdx.x / 4, pair = threadIdx.x % 4;
  const bool is_there = row < batch;
  const auto unit_of = [&](int tile) { return first_unit + tile * 8 + 2 * pair; };
  float from_next[2][2] = {}, grad_cell[2][2] = {};
  T from_output[2][2] = {}, gates[2][3][2] = {}, cells[2][2] = {};
  const auto load_step = [&](int64_t step) {
    if (!is_there) return;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int unit = unit_of(tile) + k;
        from_output[tile][k] = to.grad_hiddens(step, row, unit);
        cells[tile][k] = to.cells(step, row, unit);
#pragma unroll
        for (int g = 0; g < 3; ++g) gates[tile][g][k] = to.gates(step, row, g * state + unit);
      }
    }
  };
  if (is_there) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int k = 0; k < 2; ++k) grad_cell[tile][k] = static_cast<float>(to.grad_last_cell(row, unit_of(tile) + k));
    }
  }
  load_step(steps - 1);

#pragma unroll 1
  for (int64_t step = steps - 1; step >= 0; --step) {
    uint4* const copy = copies + step % 2 * copy_size;
    Vector<T, 2> grad_gates[2][3];
    if (is_there) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const auto gate = [&](int g) { return static_cast<float>(gates[tile][g][k]); };
          const LltmGradient<float> gradient = lltm_step_backward<float>(
              static_cast<float>(from_output[tile][k]) + from_next[tile][k], grad_cell[tile][k], gate(0), gate(1),
              gate(2), static_cast<float>(cells[tile][k]));
          grad_cell[tile][k] = gradient.cell;
          grad_gates[tile][0].item[k] = static_cast<T>(gradient.i);
          grad_gates[tile][1].item[k] = static_cast<T>(gradient.o);
          grad_gates[tile][2].item[k] = static_cast<T>(gradient.c);
        }
#pragma unroll
        for (int g = 0; g < 3; ++g) {
          reinterpret_cast<uint32_t*>(copy)[place_of_pair(row, g * state + unit_of(tile), depth)] =
              pair_of(grad_gates[tile][g].item[0], grad_gates[tile][g].item[1]);
        }
      }
    }
    barrier.arrive();
    // While the others arrive: what this step leaves in memory, and what the next one will read there.
    if (is_there) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
        for (int g = 0; g < 3; ++g) {
          store_adjacent(&to.grad_gates(step, row, g * state + unit_of(tile)), grad_gates[tile][g]);
        }
      }
    }
    if (step > 0) load_step(step - 1);
    barrier.wait();
    product.multiply(copy, depth, sums);
    if (is_there) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        from_next[tile][0] = from_next[tile][1] = 0;
        Product::add_sums(from_next[tile], sums, row, tile, pair);
      }
    }
  }
  if (!is_there) return;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      to.grad_hidden(row, unit_of(tile) + k) = static_cast<T>(from_next[tile][k]);
      to.grad_cell(row, unit_of(tile) + k) = static_cast<T>(grad_cell[tile][k]);
    }
  }
#endif
}

}  // namespace

}  // namespace opsmith::ops::lltm
