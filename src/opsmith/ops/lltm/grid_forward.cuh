// The kernel that runs all steps of a sequence's forward in one grid, for more units than a cluster serves: see
// grid_products.cuh.
//
// Two copies of the hidden state take turns, so one barrier a step is enough: whoever writes the hidden state of step
// t + 1 has passed the barrier after step t - 1, before which everybody was done with reading that copy.
#pragma once

#include "device.cuh"
#include "grid_products.cuh"
#include "pointwise.h"
#include "sequence_gpu.h"

namespace opsmith::ops::lltm {

namespace {

constexpr int forward_units = 8;    // of a block
constexpr int forward_columns = 3;  // tiles of columns: one for each gate

template <class T, int row_tiles>
__global__ void __launch_bounds__(grid_threads, 1) grid_forward(Scan<T> to, uint4* copies, unsigned* arrivals) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Product = GridProduct<T, row_tiles, forward_columns, most_grid_units / (16 * grid_warps)>;
  extern __shared__ __align__(16) float sums[];
  const int64_t steps = to.hiddens.size[0];
  const int batch = static_cast<int>(to.hiddens.size[1]), state = static_cast<int>(to.hiddens.size[2]);
  const int first_unit = blockIdx.x * forward_units, copy_size = Product::rows * state / 8;
  gpu::GridBarrier barrier(arrivals);
  Product product;
  product.load(state,
               [&](int term, int column) { return to.weight(column / 8 * state + first_unit + column % 8, term); });

  // Two adjacent units of a row, which this thread completes in every step.
  const int row = threadIdx.x / 4, pair = threadIdx.x % 4, unit = first_unit + 2 * pair;
  const bool is_there = row < batch;
  const auto send = [&](int64_t step, const Vector<T, 2>& hidden) {
    uint4* const copy = copies + step % 2 * copy_size;
    reinterpret_cast<uint32_t*>(copy)[place_of_pair(row, unit, state)] = pair_of(hidden.item[0], hidden.item[1]);
  };
  float cell[2] = {};
  Vector<float, 2> input[3] = {};
  Vector<T, 2> bias[3] = {};
  const auto load_input = [&](int64_t step) {
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      if (is_there) input[g] = load_adjacent<2>(&to.input(step, row, g * state + unit));
    }
  };
  if (is_there) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      cell[k] = static_cast<float>(to.cell(row, unit + k));
#pragma unroll
      for (int g = 0; g < 3; ++g) bias[g].item[k] = to.bias(g * state + unit + k);
    }
    send(0, {{to.hidden(row, unit), to.hidden(row, unit + 1)}});
  }
  barrier.arrive();
  load_input(0);
  barrier.wait();

#pragma unroll 1
  for (int64_t step = 0; step < steps; ++step) {
    product.multiply(copies + step % 2 * copy_size, state, sums);
    Vector<T, 2> gate[3], hidden, next_cell;
    if (is_there) {
      float sum[3][2];
#pragma unroll
      for (int g = 0; g < 3; ++g) {
#pragma unroll
        for (int k = 0; k < 2; ++k) sum[g][k] = input[g].item[k] + static_cast<float>(bias[g].item[k]);
        Product::add_sums(sum[g], sums, row, g, pair);
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const LltmState<float> next = lltm_step<float>(sum[0][k], sum[1][k], sum[2][k], cell[k]);
        cell[k] = next.cell;
#pragma unroll
        for (int g = 0; g < 3; ++g) gate[g].item[k] = static_cast<T>(sum[g][k]);
        hidden.item[k] = static_cast<T>(next.hidden);
        next_cell.item[k] = static_cast<T>(next.cell);
      }
      send(step + 1, hidden);
    }
    const bool is_last = step + 1 == steps;
    if (!is_last) barrier.arrive();
    // While the others arrive: what this step leaves in memory, and what the next one will read there.
    if (is_there) {
#pragma unroll
      for (int g = 0; g < 3; ++g) store_adjacent(&to.gates(step, row, g * state + unit), gate[g]);
      store_adjacent(&to.hiddens(step, row, unit), hidden);
      store_adjacent(&to.cells(step, row, unit), next_cell);
      if (is_last) store_adjacent(&to.last_cell(row, unit), next_cell);
    }
    if (is_last) break;
    load_input(step + 1);
    barrier.wait();
  }
#endif
}

}  // namespace

}  // namespace opsmith::ops::lltm
