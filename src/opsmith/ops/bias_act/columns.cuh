// bias_act of a matrix whose rows go through all channels: a thread keeps to a few columns, whose biases it loads once.
#pragma once

#include "shares.cuh"
#include "vectors.cuh"

namespace opsmith::ops::bias_act {
namespace {

// How a matrix is shared out: a thread's vectors follow each other down a column of them, and a block takes `span` rows
// of as many columns as it has lanes.
struct ColumnPlan {
  int64_t rows, columns;  // columns of vectors
  int64_t per_channel;    // elements of a row that are of one channel, before the next follows
  Lanes lanes;
  int64_t blocks, parts, span;

  // A thread takes `most` vectors or fewer.
  ColumnPlan(int64_t rows, int64_t columns, int64_t per_channel, int64_t most)
      : rows(rows), columns(columns), per_channel(per_channel), lanes(columns, 5) {
    blocks = divide_up(columns, lanes.across());
    span = lanes.lines() * vectors_each(blocks * lanes.across() * rows, blocks_wanted, most);
    parts = divide_up(rows, span);
  }
};

// The biases of the vector that begins at an element of a row.
template <class T, int width>
__device__ void load_biases(const View<const T, 1>& b, int64_t element, int64_t per_channel,
                            compute_t<T> (&bias)[width]) {
  int64_t channel = element, left = 1;
  if (per_channel > 1) {
    channel = element / per_channel;
    left = per_channel - element % per_channel;
  }
#pragma unroll
  for (int k = 0; k < width; ++k) {
    bias[k] = bias_of(b, channel);
    if (--left == 0) left = per_channel, ++channel;
  }
}

// A thread's vectors of a matrix, from the first on.
template <int width, class T>
__device__ Line<T, width> line_of(const ColumnPlan& plan, const View<T, 2>& matrix, int64_t row, int64_t column) {
  return {&matrix(row, column * width), plan.lanes.lines() * matrix.stride[0]};
}

// The same for a matrix, by blocks (columns, part); `partials` is [columns, width, parts].
template <int width, class T, class F>
__global__ void __launch_bounds__(threads)
    map_columns(F f, ColumnPlan plan, View<const T, 1> b, View<const T, 2> grad, View<const T, 2> x, View<T, 2> out,
                double* __restrict__ partials) {
  using C = compute_t<T>;
  const int64_t column = int64_t{blockIdx.x} * plan.lanes.across() + plan.lanes.lane(threadIdx.x);
  const bool inside = column < plan.columns;
  C bias[width] = {};
  if (inside) load_biases<T>(b, column * width, plan.per_channel, bias);
  for (int64_t part = blockIdx.y; part < plan.parts; part += gridDim.y) {
    const int64_t row = part * plan.span + plan.lanes.line(threadIdx.x);
    const int64_t end = smaller((part + 1) * plan.span, plan.rows);
    const int n = inside && row < end ? plan.lanes.lines_in(end - row) : 0;
    C sums[width] = {};
    map_line(f, n, line_of<width>(plan, grad, row, column), line_of<width>(plan, x, row, column),
             line_of<width>(plan, out, row, column), bias, [&](const C(&exact)[width]) {
#pragma unroll
               for (int k = 0; k < width; ++k) sums[k] += exact[k];
             });
    if constexpr (is_backward<T, F>) {
      if (partials == nullptr) continue;
      __shared__ double totals[width][threads];
      __syncthreads();  // the totals of another part may still be read
#pragma unroll
      for (int k = 0; k < width; ++k) totals[k][threadIdx.x] = static_cast<double>(sums[k]);
      for (int half = threads / 2; half >= plan.lanes.across(); half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
#pragma unroll
          for (int k = 0; k < width; ++k) totals[k][threadIdx.x] += totals[k][threadIdx.x + half];
        }
      }
      if (inside && threadIdx.x < plan.lanes.across()) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
          partials[(column * width + k) * plan.parts + part] = totals[k][threadIdx.x];
        }
      }
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::bias_act
