// bias_act of rows that are of one channel each: a block works on one channel, whose bias is one number.
#pragma once

#include "shares.h"
#include "vectors.h"

namespace {

// How a tensor's rows are shared out: a channel has `rows` of `length` vectors, as `parts` blocks take them, `span`
// vectors each.
struct RowPlan {
  int64_t channels, rows, length;
  int64_t parts, span;
  int64_t step_rows, step_columns;  // how far a block's threads go in a round

  RowPlan(int64_t channels, int64_t rows, int64_t length)
      : channels(channels), rows(rows), length(length), step_rows(threads / length), step_columns(threads % length) {
    const int64_t tiles = ceil_div(rows * length, threads);
    const int64_t even = ceil_div(tiles, ceil_div(blocks_wanted, channels));
    const int64_t each = even < most_vectors ? even : most_vectors;
    parts = ceil_div(tiles, each);
    span = each * threads;
  }
};

// out = f(grad, x, b) or f(x, b). Blocks that follow each other have channels that do: of short rows they read memory
// without gaps. `partials`, [channels, parts], may be null.
template <int width, class T, class F>
__global__ void __launch_bounds__(threads) map_rows(F f, RowPlan plan, View<const T, 1> b, View<const T, 3> grad,
                                                    View<const T, 3> x, View<T, 3> out, double* __restrict__ partials) {
  using C = compute_t<T>;
  constexpr bool is_backward = std::is_invocable_v<F, C, C, C>;
  constexpr int count = at_once<T, is_backward>;
  for (int64_t item = blockIdx.x; item < plan.channels * plan.parts; item += gridDim.x) {
    const int64_t channel = item % plan.channels, part = item / plan.channels;
    const int64_t all = plan.rows * plan.length;
    const int64_t end = (part + 1) * plan.span < all ? (part + 1) * plan.span : all;
    C bias[width];
#pragma unroll
    for (int k = 0; k < width; ++k) bias[k] = bias_of(b, channel);
    // One division a thread; from one vector to the next the place goes on by additions.
    int64_t i = part * plan.span + threadIdx.x;
    int64_t row = i / plan.length, column = i % plan.length;
    C sum = 0;
#pragma unroll 1
    for (; i < end; i += count * threads) {
      Vector<T, width> values[count], grads[count];
      int64_t rows[count], columns[count];
#pragma unroll
      for (int j = 0; j < count; ++j) {
        rows[j] = row, columns[j] = column * width;
        if (i + j * threads < end) {
          values[j] = vector_at<width>(x, row, channel, columns[j]);
          if constexpr (is_backward) grads[j] = vector_at<width>(grad, row, channel, columns[j]);
        }
        row += plan.step_rows, column += plan.step_columns;
        if (column >= plan.length) column -= plan.length, ++row;
      }
#pragma unroll
      for (int j = 0; j < count; ++j) {
        if (i + j * threads >= end) break;
        C exact[width];
        vector_at<width>(out, rows[j], channel, columns[j]) = apply(f, grads[j], values[j], bias, exact);
        if constexpr (is_backward) {
#pragma unroll
          for (int k = 1; k < width; ++k) exact[0] += exact[k];
          sum += exact[0];
        }
      }
    }
    if constexpr (is_backward) {
      if (partials == nullptr) continue;
      __syncthreads();  // the block's sum of another item may still be read
      const double total = sum_over_block(static_cast<double>(sum));
      if (threadIdx.x == 0) partials[channel * plan.parts + part] = total;
    }
  }
}

}  // namespace
