// bias_act of rows that are of one channel each: a block works on one channel, whose bias is one number.
#pragma once

#include "shares.cuh"
#include "vectors.cuh"

namespace opsmith::ops::bias_act {
namespace {

// How a tensor's rows, of `length` vectors each, are shared out. A thread's vectors follow each other along a row, or
// where a row has no more vectors than a block has threads, down from row to row. So a block takes a piece of a row, of
// `extent` vectors, or `rows_each` whole rows of a channel.
struct RowPlan {
  int64_t channels, rows, length;
  bool is_long;
  Lanes lanes;
  int64_t pieces, extent;     // blocks of a row
  int64_t groups, rows_each;  // ... and of a column of rows

  // A thread takes `most` vectors or fewer; but as many as `most_summed` where it is for sums of few channels.
  RowPlan(int64_t channels, int64_t rows, int64_t length, int64_t most, bool is_summed)
      : channels(channels), rows(rows), length(length), is_long(length > threads), lanes(length, thread_bits) {
    const int64_t summed = is_summed ? vectors_each(rows * length, sums_wanted, most_summed) : 1;
    const int64_t each = vectors_each(channels * rows * length, blocks_wanted, summed > most ? summed : most);
    const int64_t tiles = divide_up(length, threads);
    pieces = divide_up(tiles, each);
    extent = divide_up(tiles, pieces) * threads;
    rows_each = is_long ? 1 : each * lanes.lines();
    groups = divide_up(rows, rows_each);
  }

  OPSMITH_HOST_DEVICE int64_t parts() const { return groups * pieces; }
};

// A thread's vectors of a tensor, from the first on.
template <int width, class T>
__device__ Line<T, width> line_of(const RowPlan& plan, const View<T, 3>& tensor, int64_t row, int64_t channel,
                                  int64_t column) {
  return {&tensor(row, channel, column * width),
          plan.is_long ? threads * width * tensor.stride[2] : plan.lanes.lines() * tensor.stride[0]};
}

// out = f(grad, x, b) or f(x, b), by blocks (piece, channel, group): in this order they go through memory as it lies,
// and without a division. `partials`, [channels, parts], may be null.
template <int width, class T, class F>
__global__ void __launch_bounds__(threads) map_rows(F f, RowPlan plan, View<const T, 1> b, View<const T, 3> grad,
                                                    View<const T, 3> x, View<T, 3> out, double* __restrict__ partials) {
  using C = compute_t<T>;
  const int64_t piece = blockIdx.x;
  const int64_t column = piece * plan.extent + plan.lanes.lane(threadIdx.x);
  const int64_t end_column = smaller((piece + 1) * plan.extent, plan.length);
  for (int64_t group = blockIdx.z; group < plan.groups; group += gridDim.z) {
    const int64_t row = group * plan.rows_each + plan.lanes.line(threadIdx.x);
    const int64_t end_row = smaller((group + 1) * plan.rows_each, plan.rows);
    const bool inside = column < end_column && row < end_row;
    const int n = !inside ? 0 : plan.is_long ? tiles_in(end_column - column) : plan.lanes.lines_in(end_row - row);
    for (int64_t channel = blockIdx.y; channel < plan.channels; channel += gridDim.y) {
      C bias[width];
#pragma unroll
      for (int k = 0; k < width; ++k) bias[k] = bias_of(b, channel);
      C sum = 0;
      map_line(f, n, line_of<width>(plan, grad, row, channel, column), line_of<width>(plan, x, row, channel, column),
               line_of<width>(plan, out, row, channel, column), bias, [&](const C(&exact)[width]) {
                 C of_vector = exact[0];
#pragma unroll
                 for (int k = 1; k < width; ++k) of_vector += exact[k];
                 sum += of_vector;
               });
      if constexpr (is_backward<T, F>) {
        if (partials == nullptr) continue;
        __syncthreads();  // the block's sum of another channel may still be read
        const double total = sum_over_block(static_cast<double>(sum));
        if (threadIdx.x == 0) partials[channel * plan.parts() + group * plan.pieces + piece] = total;
      }
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::bias_act
