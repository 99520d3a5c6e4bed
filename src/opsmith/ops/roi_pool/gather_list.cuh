// Which bins the gradient of a tile is made of, in their order: found box by box, and listed bin by bin.
#pragma once

#include <opsmith/lanes.h>

#include "../_boxes/tiles.cuh"
#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Piece, boxes::piece_bins, boxes::Tile, boxes::Tiling;

constexpr int gather_batch = 128;  // pieces of boxes that are looked at
constexpr int listed_bins = 1024;  // that are taken at once

// How many bins a piece has along an axis of a box of `all`, from `first` on.
__device__ inline int bins_along(int64_t first, int64_t all) {
  return static_cast<int>(all - first < piece_bins ? all - first : piece_bins);
}

// Where a bin is read: offsets in grad_out and in argmax.
struct BinPlace {
  int64_t gradient, pixel;
};

// The steps from one bin to the next along an axis of either.
struct BinSteps {
  BinPlace roi, row, column;
};

struct BinList {
  BinPlace bin[listed_bins];
  // Of each piece the bins that touch the tile, which are a rectangle: the first, how many come before it, and how long
  // its rows are, with what a number is multiplied by to be divided by that.
  BinPlace first[gather_batch];
  unsigned before[gather_batch];
  uint16_t columns[gather_batch], inverse[gather_batch];
  unsigned all;

  // Finds them. Sixteen lanes take a piece: eight the rows of its bins, and eight the columns.
  template <int threads>
  __device__ void find(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                       const Tile& tile, int rows_of_tile, int columns_of_tile, const BinSteps& steps,
                       const unsigned* pieces, int count) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, index = lane % piece_bins;
    const bool is_row = lane % (2 * piece_bins) < piece_bins;
    const int low = static_cast<int>(is_row ? tile.row : tile.column);
    const int high = low + (is_row ? rows_of_tile : columns_of_tile);
#pragma unroll 1
    for (int begin = 0; begin < count; begin += threads / (2 * piece_bins)) {
      const int k = begin + thread / (2 * piece_bins);
      const Piece piece(tiling, pieces[k < count ? k : begin]);
      const int64_t start = is_row ? piece.row : piece.column;
      const Range pixels = pooling.read_side(boxes, piece.roi, is_row).range(start + index);
      const bool touches = index < bins_along(start, is_row ? pooling.out_height : pooling.out_width) &&
                           pixels.low < high && pixels.high > low;
      const unsigned found = lanes_where(touches) >> (lane & 16);
      const unsigned rows = found & 0xff, columns = found >> 8 & 0xff;
      if (lane % 16 == 0 && k < count) {
        const int64_t row = piece.row + __ffs(rows) - 1, column = piece.column + __ffs(columns) - 1;
        before[k] = __popc(rows) * __popc(columns);
        this->columns[k] = static_cast<uint16_t>(__popc(columns));
        inverse[k] = static_cast<uint16_t>(columns ? 65535u / __popc(columns) : 0);
        first[k] = {piece.roi * steps.roi.gradient + row * steps.row.gradient + column * steps.column.gradient,
                    piece.roi * steps.roi.pixel + row * steps.row.pixel + column * steps.column.pixel};
      }
    }
    __syncthreads();
    if (thread < 32) add_up(count);
    __syncthreads();
  }

  // The numbers of bins become those of the bins before.
  __device__ void add_up(int count) {
    constexpr int each = gather_batch / 32;
    const int lane = static_cast<int>(threadIdx.x);
    unsigned below[each], own = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      below[i] = own;
      if (each * lane + i < count) own += before[each * lane + i];
    }
    unsigned up_to = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const unsigned other = shuffle_up(up_to, distance);
      if (lane >= distance) up_to += other;
    }
#pragma unroll
    for (int i = 0; i < each; ++i) before[each * lane + i] = up_to - own + below[i];
    if (lane == 31) all = up_to;
  }

  // Lists the bins from `begin` on, as many as there is room for; returns how many.
  template <int threads>
  __device__ unsigned list(const BinSteps& steps, unsigned begin) {
    const unsigned left = all - begin, count = left < listed_bins ? left : listed_bins;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += threads) {
      int k = 0;  // the last piece that does not begin behind the bin
#pragma unroll
      for (int step = gather_batch / 2; step > 0; step /= 2) {
        if (before[k + step] <= begin + i) k += step;
      }
      const unsigned own = begin + i - before[k], row = own * (inverse[k] + 1u) >> 16, column = own - row * columns[k];
      bin[i] = {first[k].gradient + row * steps.row.gradient + column * steps.column.gradient,
                first[k].pixel + row * steps.row.pixel + column * steps.column.pixel};
    }
    __syncthreads();
    return count;
  }
};

}  // namespace
}  // namespace opsmith::ops::roi_pool
