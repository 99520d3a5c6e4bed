// The gradient of roi_align on a GPU, without atomics and without memory of its own: a block makes a tile of an image.
//
// Its pixels' sums stay in registers: a thread has one row of the tile and some channels, and is given each box's bins
// in the order of the boxes. The threads of a row have adjacent channels, so that a warp takes one way: a row that no
// bin of a box touches passes it over.
#pragma once

#include "../_boxes/channels.cuh"
#include "spread_planes.cuh"
#include "tile_weights.cuh"

namespace opsmith::ops::roi_align {
namespace {

using boxes::are_inner, boxes::are_vectors, boxes::Channels, boxes::for_each_batch, boxes::grid_of, boxes::Piece,
    boxes::Tile, boxes::tile_images, boxes::Tiling;

constexpr int spread_columns = 8;
constexpr int spread_width = 4;  // channels of a thread

// Adds what one piece gives to a row. The bins above one another come first: the columns share their sum.
template <int batch, bool vectors, class C, class T>
__device__ void add_piece(const TileWeights<C, spread_columns, batch>& weights, int slot, int row,
                          const Channels<spread_width, vectors>& channels, const T* bins, int64_t row_stride,
                          int64_t column_stride, C (&sums)[spread_columns][spread_width]) {
  const unsigned above = weights.bins_of_row[slot][row];
#pragma unroll 1
  for (unsigned left = weights.bins_x[slot]; left != 0; left &= left - 1) {
    const int j = __ffs(left) - 1;
    C down[spread_width] = {};
#pragma unroll 1
    for (unsigned rows = above; rows != 0; rows &= rows - 1) {
      const int i = __ffs(rows) - 1;
      const C weight = weights.y[slot][i][row];
      C value[spread_width];
      channels.load(bins + i * row_stride + j * column_stride, value);
#pragma unroll
      for (int c = 0; c < spread_width; ++c) down[c] += weight * value[c];
    }
    add_across(weights, slot, j, down, sums);
  }
}

template <int threads, bool vectors, class T>
__global__ void __launch_bounds__(threads, sizeof(compute_t<T>) == 8 ? 1 : 1024 / threads)
    spread_boxes(View<const T, 4> grad_out, View<const float, 2> boxes, Pooling pooling, Tiling tiling,
                 View<T, 4> grad_features) {
  using C = compute_t<T>;
  constexpr int groups = threads / tile_rows;
  constexpr int batch = batch_of<threads>;
  __shared__ TileWeights<C, spread_columns, batch> weights;
  const int row = threadIdx.x / groups, group = threadIdx.x % groups;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * tile_rows, place % tiling.across * spread_columns};
      const unsigned channel = (chunk * groups + group) * spread_width;
      const int64_t left = grad_features.size[1] - channel;
      const int valid = left < 0 ? 0 : left < spread_width ? static_cast<int>(left) : spread_width;
      const Channels<spread_width, vectors> from{grad_out.stride[1], valid}, to{grad_features.stride[1], valid};
      const T* const own = grad_out.data + channel * grad_out.stride[1];
      C sums[spread_columns][spread_width] = {};
      const auto touches = [&](unsigned index) {
        return may_touch<spread_columns>(boxes, pooling, Piece(tiling, index), tile);
      };
      for_each_batch<threads, batch>(tiling.pieces, touches, [&](const unsigned* list, int count) {
        weigh<threads>(boxes, pooling, tiling, tile, list, count, grad_out, weights);
        const unsigned pieces = weights.pieces_of_row(row, count);
#pragma unroll 1
        for (unsigned left = valid > 0 ? pieces : 0; left != 0; left &= left - 1) {
          const int slot = __ffs(left) - 1;
          add_piece(weights, slot, row, from, own + weights.offset[slot], grad_out.stride[2], grad_out.stride[3], sums);
        }
        __syncthreads();
      });
      if (valid == 0 || tile.row + row >= pooling.height) continue;
      T* const line = grad_features.data + image * grad_features.stride[0] + channel * grad_features.stride[1] +
                      (tile.row + row) * grad_features.stride[2] + tile.column * grad_features.stride[3];
#pragma unroll
      for (int x = 0; x < spread_columns; ++x) {
        if (tile.column + x < pooling.width) to.store(sums[x], line + x * grad_features.stride[3]);
      }
    }
  }
}

template <int threads, bool vectors, class T>
void launch_spread(const View<const T, 4>& grad_out, const View<const float, 2>& boxes, const Pooling& pooling,
                   const View<T, 4>& grad_features, Stream stream) {
  const Tiling tiling = tile_images("roi_align_transposed", grad_features, grad_out, tile_rows, spread_columns,
                                    threads / tile_rows * spread_width);
  spread_boxes<threads, vectors>
      <<<grid_of(tiling, pooling.images), threads, 0, stream>>>(grad_out, boxes, pooling, tiling, grad_features);
}

// Writes the gradient of one level's features, or of all there are.
template <class T>
void spread_level(const View<const T, 4>& grad_out, const View<const float, 2>& boxes, const Pooling& pooling,
                  const View<T, 4>& grad_features, Stream stream) {
  if (grad_features.numel() == 0) return;
  if (!are_inner(grad_out) || !are_inner(grad_features)) {
    launch_spread_planes(grad_out, boxes, pooling, grad_features, stream);
  } else if (!are_vectors<spread_width>(grad_out) || !are_vectors<spread_width>(grad_features)) {
    launch_spread<256, false>(grad_out, boxes, pooling, grad_features, stream);
  } else if (grad_features.size[1] <= 256 / tile_rows * spread_width) {
    launch_spread<256, true>(grad_out, boxes, pooling, grad_features, stream);
  } else {
    // What a block works out about its boxes serves more channels.
    launch_spread<512, true>(grad_out, boxes, pooling, grad_features, stream);
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_align
