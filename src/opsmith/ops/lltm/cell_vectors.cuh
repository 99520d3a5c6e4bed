// How the pointwise kernels of an LLTM step share out matrices on a GPU: in vectors along the rows.
#pragma once

#include "cell_gpu.h"
#include "device.cuh"

namespace opsmith::ops::lltm {
namespace {

constexpr int threads = 256;

// As many threads along a row as it has vectors, up to a whole block; the rest of the block takes further rows.
struct Grid {
  Grid(int64_t rows, int64_t vectors) {
    int x = lanes;
    while (x < threads && x < vectors) x *= 2;
    const unsigned y = blocks_for(rows, threads / x);
    blocks = dim3(static_cast<unsigned>(divide_up(vectors, x)), y < 65535 ? y : 65535);
    of_block = dim3(x, threads / x);
  }

  dim3 blocks;
  dim3 of_block;
};

// Calls f(row, column) for every `width`th column below `columns`. Rows go along y, so that nothing divides.
template <int width, class F>
__device__ void for_each_vector(int64_t rows, int64_t columns, unsigned block_x, unsigned block_y, unsigned blocks_y,
                                const F& f) {
  const int64_t column = (block_x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * width;
  if (column >= columns) return;
#pragma unroll 1
  for (int64_t row = block_y * static_cast<int64_t>(blockDim.y) + threadIdx.y; row < rows;
       row += static_cast<int64_t>(blocks_y) * blockDim.y) {
    f(row, column);
  }
}

// Whether each of the groups of `width` columns that a thread takes starts at a multiple of its size.
template <int width, class T, class... Matrix>
bool allow_vectors(const Matrix&... matrix) {
  return ((matrix.size[1] % width == 0 && matrix.stride[1] == 1 && matrix.stride[0] % width == 0 &&
           is_aligned(matrix.data, width * sizeof(T))) &&
          ...);
}

}  // namespace
}  // namespace opsmith::ops::lltm
