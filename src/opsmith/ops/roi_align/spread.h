// The gradient of roi_align on a GPU, without atomics and without memory of its own: a block makes a tile of an image.
//
// Its pixels' sums stay in registers: a thread has one column of the tile and four channels, and is given each box's
// bins. What they weigh in each row and column of the tile is worked out for 16 boxes at a time and shared by all
// channels.
#pragma once

#include "channels.h"
#include "roi_align.h"
#include "tiles.h"

namespace {

constexpr int spread_threads = 256;
constexpr int spread_width = 4;  // channels of a thread
constexpr int tile_rows = 8;     // all of them a thread's
constexpr int batch = spread_threads / (2 * piece_bins);

// How threads stand. With channels inside, a warp has one column and 128 channels; else half a warp has 16 columns, so
// that it writes 16 adjacent places.
template <bool inner>
struct TileShape {
  static constexpr int columns = inner ? 8 : 16;
  static constexpr int groups = spread_threads / columns;
  static constexpr int channels = groups * spread_width;
};

// The weights of some boxes' pieces in a tile, in shared memory.
template <class C, int columns>
struct TileWeights {
  C y[batch][piece_bins][tile_rows];
  C x[batch][columns][piece_bins];
  // Which of them are not 0: bins with a row in the tile, and bins of each column.
  unsigned rows[batch];
  unsigned columns_of[batch][columns];

  __device__ void clear() {
    for (int k = threadIdx.x; k < batch * piece_bins * tile_rows; k += spread_threads) (&y[0][0][0])[k] = 0;
    for (int k = threadIdx.x; k < batch * piece_bins * columns; k += spread_threads) (&x[0][0][0])[k] = 0;
    for (int k = threadIdx.x; k < batch * columns; k += spread_threads) (&columns_of[0][0])[k] = 0;
    if (threadIdx.x < batch) rows[threadIdx.x] = 0;
  }
};

// Whether a piece may touch a tile.
template <int columns>
__device__ bool may_touch(const View<const float, 2>& boxes, const Pooling& pooling, const Piece& piece,
                          const Tile& tile) {
  const Roi roi = read_roi(boxes, piece.roi, pooling);
  return roi.image == tile.image &&
         roi.y.may_touch(piece.row, piece.row + piece_bins, tile.row, tile.row + tile_rows - 1) &&
         roi.x.may_touch(piece.column, piece.column + piece_bins, tile.column, tile.column + columns - 1);
}

// Fills in the weights of up to `batch` pieces: a thread has one bin along one axis of a piece.
template <class C, int columns>
__device__ void weigh(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling, const Tile& tile,
                      const unsigned* list, int count, TileWeights<C, columns>& weights) {
  weights.clear();
  __syncthreads();
  const int slot = threadIdx.x / (2 * piece_bins), bin = threadIdx.x % piece_bins;
  const bool is_row = threadIdx.x / piece_bins % 2 == 0;
  if (slot < count) {
    const Piece piece(tiling, list[slot]);
    const Roi roi = read_roi(boxes, piece.roi, pooling);
    const Side side = is_row ? roi.y : roi.x;
    const int64_t index = bin + (is_row ? piece.row : piece.column);
    const int first = static_cast<int>(is_row ? tile.row : tile.column);
    const int size = is_row ? tile_rows : columns;
    if (index < (is_row ? pooling.out_height : pooling.out_width)) {
      side.for_each(index, first, first + size - 1, [&](int pixel, float weight) {
        const int place = pixel - first;
        if (place < 0 || place >= size) return;
        if (is_row) {
          weights.y[slot][bin][place] += static_cast<C>(weight) / static_cast<C>(side.samples);
          atomicOr(&weights.rows[slot], 1u << bin);
        } else {
          weights.x[slot][place][bin] += static_cast<C>(weight) / static_cast<C>(side.samples);
          atomicOr(&weights.columns_of[slot][place], 1u << bin);
        }
      });
    }
  }
  __syncthreads();
}

// Adds what one piece gives to the rows of a thread's column. The bins of a column come first: the rows share their
// sum.
template <class C, int columns, bool vectors, class T>
__device__ void add_piece(const TileWeights<C, columns>& weights, int slot, int column,
                          const Channels<spread_width, vectors>& channels, const T* bins, int64_t row_stride,
                          int64_t column_stride, C (&sums)[tile_rows][spread_width]) {
  const unsigned of_column = weights.columns_of[slot][column];
  if (of_column == 0) return;
#pragma unroll 1
  for (unsigned rows = weights.rows[slot]; rows != 0; rows &= rows - 1) {
    const int i = __ffs(rows) - 1;
    C across[spread_width] = {};
#pragma unroll 1
    for (unsigned left = of_column; left != 0; left &= left - 1) {
      const int j = __ffs(left) - 1;
      const C weight = weights.x[slot][column][j];
      C value[spread_width];
      channels.load(bins + i * row_stride + j * column_stride, value);
#pragma unroll
      for (int c = 0; c < spread_width; ++c) across[c] += weight * value[c];
    }
#pragma unroll
    for (int y = 0; y < tile_rows; ++y) {
      const C weight = weights.y[slot][i][y];
      if (weight != 0) {
#pragma unroll
        for (int c = 0; c < spread_width; ++c) sums[y][c] += weight * across[c];
      }
    }
  }
}

template <bool inner, bool vectors, class T>
__global__ void __launch_bounds__(spread_threads,
                                  sizeof(compute_t<T>) == 8 ? 1 : 2)  // doubles take twice the registers
    spread_boxes(View<const T, 4> grad_out, View<const float, 2> boxes, Pooling pooling, Tiling tiling,
                 View<T, 4> grad_features) {
  using C = compute_t<T>;
  using Shape = TileShape<inner>;
  __shared__ TileWeights<C, Shape::columns> weights;
  const int column = inner ? threadIdx.x / Shape::groups : threadIdx.x % Shape::columns;
  const int group = inner ? threadIdx.x % Shape::groups : threadIdx.x / Shape::columns;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * tile_rows, place % tiling.across * Shape::columns};
      const unsigned channel = chunk * Shape::channels + group * spread_width;
      const int64_t left = grad_features.size[1] - channel;
      const int valid = left < 0 ? 0 : left < spread_width ? static_cast<int>(left) : spread_width;
      const Channels<spread_width, vectors> from{grad_out.stride[1], valid}, to{grad_features.stride[1], valid};
      C sums[tile_rows][spread_width] = {};
      const auto touches = [&](unsigned index) {
        return may_touch<Shape::columns>(boxes, pooling, Piece(tiling, index), tile);
      };
      for_each_batch<spread_threads, batch>(tiling.pieces, touches, [&](const unsigned* list, int count) {
        weigh(boxes, pooling, tiling, tile, list, count, weights);
#pragma unroll 1
        for (int slot = 0; slot < count && valid > 0; ++slot) {
          const Piece piece(tiling, list[slot]);
          const T* const bins = grad_out.data + piece.roi * grad_out.stride[0] + channel * grad_out.stride[1] +
                                piece.row * grad_out.stride[2] + piece.column * grad_out.stride[3];
          add_piece(weights, slot, column, from, bins, grad_out.stride[2], grad_out.stride[3], sums);
        }
        __syncthreads();
      });
      if (valid == 0 || tile.column + column >= pooling.width) continue;
      T* const corner = grad_features.data + image * grad_features.stride[0] + channel * grad_features.stride[1] +
                        tile.row * grad_features.stride[2] + (tile.column + column) * grad_features.stride[3];
#pragma unroll
      for (int y = 0; y < tile_rows; ++y) {
        if (tile.row + y < pooling.height) to.store(sums[y], corner + y * grad_features.stride[2]);
      }
    }
  }
}

template <bool inner, bool vectors, class T>
void launch_spread(const View<const T, 4>& grad_out, const View<const float, 2>& boxes, const Pooling& pooling,
                   const View<T, 4>& grad_features, Stream stream) {
  using Shape = TileShape<inner>;
  const Tiling tiling =
      tile_images("roi_align_transposed", grad_features, grad_out, tile_rows, Shape::columns, Shape::channels);
  spread_boxes<inner, vectors>
      <<<grid_of(tiling, pooling.images), spread_threads, 0, stream>>>(grad_out, boxes, pooling, tiling, grad_features);
}

// Writes the gradient of one level's features, or of all there are.
template <class T>
void spread_level(const View<const T, 4>& grad_out, const View<const float, 2>& boxes, const Pooling& pooling,
                  const View<T, 4>& grad_features, Stream stream) {
  if (grad_features.numel() == 0) return;
  const bool inner = are_inner(grad_out) && are_inner(grad_features);
  if (inner && are_vectors<spread_width>(grad_out) && are_vectors<spread_width>(grad_features)) {
    launch_spread<true, true>(grad_out, boxes, pooling, grad_features, stream);
  } else if (inner) {
    launch_spread<true, false>(grad_out, boxes, pooling, grad_features, stream);
  } else {
    launch_spread<false, false>(grad_out, boxes, pooling, grad_features, stream);
  }
}

}  // namespace
