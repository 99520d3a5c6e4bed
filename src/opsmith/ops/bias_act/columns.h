// bias_act of a matrix whose rows go through all channels: a thread keeps to a few columns, whose biases it loads once.
#pragma once

#include "shares.h"
#include "vectors.h"

namespace {

// How a matrix is shared out: `lanes` threads of a block, a power of two, are next to each other in a row, and a block
// takes `span` rows.
struct ColumnPlan {
  int64_t rows, columns;  // columns of vectors
  int64_t per_channel;    // elements of a row that are of one channel, before the next follows
  int lanes;
  int64_t blocks, parts, span;

  ColumnPlan(int64_t rows, int64_t columns, int64_t per_channel)
      : rows(rows), columns(columns), per_channel(per_channel), lanes(1) {
    while (lanes < 32 && lanes < columns) lanes *= 2;
    blocks = ceil_div(columns, lanes);
    const int64_t tiles = ceil_div(rows, threads / lanes);
    const int64_t even = ceil_div(tiles, ceil_div(blocks_wanted, blocks));
    const int64_t each = even < most_vectors ? even : most_vectors;
    parts = ceil_div(tiles, each);
    span = each * (threads / lanes);
  }
};

// The same for a matrix; `partials` is [columns, width, parts].
template <int width, class T, class F>
__global__ void __launch_bounds__(threads)
    map_columns(F f, ColumnPlan plan, View<const T, 1> b, View<const T, 2> grad, View<const T, 2> x, View<T, 2> out,
                double* __restrict__ partials) {
  using C = compute_t<T>;
  constexpr bool is_backward = std::is_invocable_v<F, C, C, C>;
  constexpr int count = at_once<T, is_backward>;
  const int lane = threadIdx.x % plan.lanes, step = threads / plan.lanes;
  for (int64_t item = blockIdx.x; item < plan.blocks * plan.parts; item += gridDim.x) {
    const int64_t column = item % plan.blocks * plan.lanes + lane, part = item / plan.blocks;
    const int64_t end = (part + 1) * plan.span < plan.rows ? (part + 1) * plan.span : plan.rows;
    const bool inside = column < plan.columns;
    C bias[width], sums[width] = {};
    if (inside) {
#pragma unroll
      for (int k = 0; k < width; ++k) bias[k] = bias_of(b, (column * width + k) / plan.per_channel);
#pragma unroll 1
      for (int64_t row = part * plan.span + threadIdx.x / plan.lanes; row < end; row += count * step) {
        Vector<T, width> values[count], grads[count];
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if (row + j * step >= end) break;
          values[j] = vector_at<width>(x, row + j * step, column * width);
          if constexpr (is_backward) grads[j] = vector_at<width>(grad, row + j * step, column * width);
        }
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if (row + j * step >= end) break;
          C exact[width];
          vector_at<width>(out, row + j * step, column * width) = apply(f, grads[j], values[j], bias, exact);
          if constexpr (is_backward) {
#pragma unroll
            for (int k = 0; k < width; ++k) sums[k] += exact[k];
          }
        }
      }
    }
    if constexpr (is_backward) {
      if (partials == nullptr) continue;
      __shared__ double totals[threads][width];
      __syncthreads();  // the totals of another item may still be read
#pragma unroll
      for (int k = 0; k < width; ++k) totals[threadIdx.x][k] = static_cast<double>(sums[k]);
      for (int half = threads / 2; half >= plan.lanes; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
#pragma unroll
          for (int k = 0; k < width; ++k) totals[threadIdx.x][k] += totals[threadIdx.x + half][k];
        }
      }
      if (inside && threadIdx.x < plan.lanes) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
          partials[(column * width + k) * plan.parts + part] = totals[threadIdx.x][k];
        }
      }
    }
  }
}

}  // namespace
