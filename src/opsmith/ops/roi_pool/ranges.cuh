// Which bins of a box a tile of an image has to do with: a rectangle of bins, found along each axis.
#pragma once

#include "../_boxes/tiles.cuh"
#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Piece, boxes::piece_bins, boxes::Tiling;

// Some bins of a piece of a box: rows [row, row + rows) of the piece, and columns likewise.
struct BinRange {
  unsigned piece;
  uint8_t row, rows, column, columns;

  __device__ int count() const { return rows * columns; }
};

// The bins of a range, counted row by row.
struct RangeBins {
  Piece piece;
  BinRange range;
  unsigned inverse;  // bin * inverse >> 16 is bin / columns: pieces are small

  __device__ RangeBins(const Tiling& tiling, const BinRange& range)
      : piece(tiling, range.piece), range(range), inverse(65535u / range.columns + 1) {}
  __device__ int row(int bin) const { return static_cast<int>(bin * inverse >> 16); }
  __device__ int column(int bin, int row) const { return bin - row * range.columns; }
};

// The bins of a piece along an axis, `count` of them, without those at its begin that lie before a tile and those at
// its end that lie behind it.
template <class Before, class Behind>
__device__ void narrow(int count, const Before& lies_before, const Behind& lies_behind, uint8_t& first, uint8_t& left) {
  int begin = 0, end = lies_before(count - 1) || lies_behind(0) ? 0 : count;
  while (begin < end && lies_before(begin)) ++begin;
  while (begin < end && lies_behind(end - 1)) --end;
  first = static_cast<uint8_t>(begin), left = static_cast<uint8_t>(end - begin);
}

// How many bins a piece has along an axis of a box of `all`, from `first` on.
__device__ inline int bins_along(int64_t first, int64_t all) {
  return static_cast<int>(all - first < piece_bins ? all - first : piece_bins);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
