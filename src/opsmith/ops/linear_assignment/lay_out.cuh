// Lays out the matrices to solve, on a GPU: shorter side first, rows one after another, forbidden pairs infinite.
#pragma once

#include <opsmith/divide.h>

#include "linear_assignment.h"

namespace opsmith::ops::linear_assignment {
namespace {

constexpr int tile = 32;      // lines of either side that a block takes
constexpr int tile_rows = 8;  // of these, what its threads take at once

// Problem b has its matrix from matrices[b * N * M] on.
template <class T>
__global__ void __launch_bounds__(tile* tile_rows)
    lay_out(View<const T, 3> cost, bool maximize, View<const int64_t, 1> row_lengths,
            View<const int64_t, 1> column_lengths, int64_t pieces, compute_t<T>* matrices) {
  __shared__ compute_t<T> values[tile][tile + 1];
  const int64_t across = divide_up(cost.size[2], tile), each = divide_up(cost.size[1], tile) * across;
  const int x = threadIdx.x % tile, y = threadIdx.x / tile;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t problem = piece / each, top = piece % each / across * tile, left = piece % across * tile;
    const Sides sides = sides_of(cost, row_lengths, column_lengths, problem);
    const int64_t n = sides.n(), m = sides.m();
    compute_t<T>* const to = matrices + problem * cost.size[1] * cost.size[2];
    for (int row = y; row < tile; row += tile_rows) {
      const int64_t i = top + row, j = left + x;
      if (i >= n || j >= m) continue;
      const compute_t<T> value = cost_of<T>(cost(problem, i, j), maximize);
      if (sides.is_transposed) {
        values[row][x] = value;
      } else {
        to[i * m + j] = value;
      }
    }
    if (!sides.is_transposed) continue;  // the same for the whole block
    __syncthreads();
    for (int row = y; row < tile; row += tile_rows) {
      const int64_t i = top + x, j = left + row;
      if (i < n && j < m) to[j * n + i] = values[x][row];
    }
    __syncthreads();
  }
}

template <class T>
void launch_layout(const View<const T, 3>& cost, bool maximize, const View<const int64_t, 1>& row_lengths,
                   const View<const int64_t, 1>& column_lengths, compute_t<T>* matrices, Stream stream) {
  const int64_t pieces = cost.size[0] * divide_up(cost.size[1], tile) * divide_up(cost.size[2], tile);
  lay_out<T><<<blocks_for(pieces, 1), tile * tile_rows, 0, stream>>>(cost, maximize, row_lengths, column_lengths,
                                                                     pieces, matrices);
}

}  // namespace
}  // namespace opsmith::ops::linear_assignment
