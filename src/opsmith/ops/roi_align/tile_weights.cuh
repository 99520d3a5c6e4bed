// What the bins of some boxes weigh in the pixels of a tile, worked out by a block of a GPU and shared by all channels.
#pragma once

#include <opsmith/lanes.h>

#include "../_boxes/tiles.cuh"
#include "roi_align.h"

namespace opsmith::ops::roi_align {
namespace {

using boxes::Piece, boxes::piece_bins, boxes::Tile, boxes::Tiling;

constexpr int tile_rows = 8;

// Pieces whose weights a block works out at a time: a thread has a bin along one axis.
template <int threads>
constexpr int batch_of = threads / (2 * piece_bins);

// Of up to `batch` pieces, in shared memory. Sets of bins, of rows and of columns are bits.
template <class C, int columns, int batch>
struct TileWeights {
  static_assert(batch <= lanes);

  alignas(16) C y[batch][piece_bins][tile_rows];
  alignas(16) C x[batch][piece_bins][columns];
  unsigned bins_of_row[batch][tile_rows];      // of a piece, along y
  unsigned columns_of_bin[batch][piece_bins];  // of the tile; the bins along x
  unsigned bins_y[batch], bins_x[batch];       // with a weight in any row, and in any column
  int64_t offset[batch];                       // of a piece's first bin in grad_out

  // Which of the first `count` pieces have a weight in a row. A warp has one row.
  __device__ unsigned pieces_of_row(int row, int count) const {
    const int lane = static_cast<int>(threadIdx.x % lanes);
    return lanes_where(lane < count && bins_of_row[lane][row] != 0);
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

// Fills in the weights of `count` pieces. To be called by all threads; it ends with a barrier.
template <int threads, class C, int columns, int batch, class T>
__device__ void weigh(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling, const Tile& tile,
                      const unsigned* list, int count, const View<T, 4>& grad_out,
                      TileWeights<C, columns, batch>& weights) {
  const int lane = static_cast<int>(threadIdx.x % lanes), bin = lane % piece_bins;
  const bool is_row = lane / piece_bins % 2 == 0;
#pragma unroll 1
  for (int begin = 0; begin < count; begin += batch_of<threads>) {
    const int slot = begin + static_cast<int>(threadIdx.x) / (2 * piece_bins);
    unsigned touched = 0;
    if (slot < count) {
      const Piece piece(tiling, list[slot]);
      if (lane % (2 * piece_bins) == 0)
        weights.offset[slot] = &grad_out(piece.roi, 0, piece.row, piece.column) - grad_out.data;
      const Roi roi = read_roi(boxes, piece.roi, pooling);
      const Side side = is_row ? roi.y : roi.x;
      const int64_t index = bin + (is_row ? piece.row : piece.column);
      const int first = static_cast<int>(is_row ? tile.row : tile.column);
      const int size = is_row ? tile_rows : columns;
      const C share = C{1} / static_cast<C>(side.samples);
      C* const own = is_row ? weights.y[slot][bin] : weights.x[slot][bin];
      constexpr int wide = 16 / sizeof(C);
      for (int k = 0; k < size; k += wide) *reinterpret_cast<Vector<C, wide>*>(own + k) = {};
      if (index < (is_row ? pooling.out_height : pooling.out_width)) {
        side.for_each(index, first, first + size - 1, [&](int pixel, float weight) {
          const int place = pixel - first;
          if (place < 0 || place >= size) return;
          own[place] += static_cast<C>(weight) * share;
          touched |= 1u << place;
        });
      }
    }
    // Eight lanes have a piece's bins along an axis. A tile has as many rows: a lane each.
    static_assert(tile_rows == piece_bins);
    const int group = lane / piece_bins * piece_bins;
    const unsigned bins = lanes_where(touched != 0) >> group & 0xff;
    unsigned bins_of_row = 0;
#pragma unroll
    for (int row = 0; row < tile_rows; ++row) {
      const unsigned found = lanes_where(touched >> row & 1) >> group & 0xff;
      if (bin == row) bins_of_row = found;
    }
    if (slot < count && is_row) {
      weights.bins_of_row[slot][bin] = bins_of_row;
      weights.bins_y[slot] = bins;
    } else if (slot < count) {
      weights.columns_of_bin[slot][bin] = touched;
      weights.bins_x[slot] = bins;
    }
  }
  __syncthreads();
}

// Adds what `down` gives, which is the sum of the bins above one another, to the columns of a bin.
template <class C, int columns, int batch, int width>
__device__ void add_across(const TileWeights<C, columns, batch>& weights, int slot, int bin, const C (&down)[width],
                           C (&sums)[columns][width]) {
  const unsigned touched = weights.columns_of_bin[slot][bin];
  constexpr int at_once = 16 / sizeof(C);
#pragma unroll
  for (int v = 0; v < columns / at_once; ++v) {
    if ((touched >> (v * at_once) & ((1u << at_once) - 1)) == 0) continue;  // most of them, of a narrow bin
    const auto across = reinterpret_cast<const Vector<C, at_once>*>(weights.x[slot][bin])[v];
#pragma unroll
    for (int q = 0; q < at_once; ++q) {
      if (touched >> (v * at_once + q) & 1) {
#pragma unroll
        for (int c = 0; c < width; ++c) sums[v * at_once + q][c] += across.item[q] * down[c];
      }
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_align
