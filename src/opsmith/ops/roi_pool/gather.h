// The gradient of roi_pool on a GPU: a block makes a tile of an image, whose sums are in shared memory.
//
// A thread has one channel of the whole tile. It takes the bins that touch the tile in their order, and adds the
// gradient of each to the pixel that was the largest, where that is in the tile: no other thread has that sum.
#pragma once

#include "../roi_align/tiles.h"
#include "roi_pool.h"

namespace {

constexpr int gather_threads = 128;
constexpr int gather_batch = gather_threads / (2 * piece_bins);
constexpr int tile_columns = 8;
template <class C>
constexpr int tile_rows = sizeof(C) == 8 ? 4 : 8;  // 32 KB of sums

// Division by a number that is known before the launch: n / divisor for n up to 2^31, by Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication" (1994), in a few instructions in place of twenty.
struct Divisor {
  unsigned factor, shift;

  explicit Divisor(unsigned divisor) : shift(0) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<unsigned>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
  __device__ unsigned quotient(unsigned n) const { return (__umulhi(n, factor) + n) >> shift; }
};

// Which bins of some pieces touch a tile: bit 8 i + j is the bin in row i and column j of a piece.
struct Touched {
  unsigned rows[gather_batch], columns[gather_batch];

  __device__ uint64_t bins(int slot) const {
    uint64_t bits = 0;
#pragma unroll
    for (int i = 0; i < piece_bins; ++i) {
      if (rows[slot] >> i & 1) bits |= uint64_t{columns[slot]} << (piece_bins * i);
    }
    return bits;
  }
};

__device__ inline bool overlaps(const Range& range, int64_t first, int64_t size) {
  return range.low < range.high && range.low < first + size && range.high > first;
}

// Finds them: a thread has one bin along one axis of a piece.
template <class C>
__device__ void find_touched(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                             const Tile& tile, const unsigned* list, int count, Touched& touched) {
  if (threadIdx.x < gather_batch) touched.rows[threadIdx.x] = touched.columns[threadIdx.x] = 0;
  __syncthreads();
  const int slot = threadIdx.x / (2 * piece_bins), bin = threadIdx.x % piece_bins;
  const bool is_row = threadIdx.x / piece_bins % 2 == 0;
  if (slot < count) {
    const Piece piece(tiling, list[slot]);
    const Roi roi = pooling.read_roi(boxes, piece.roi);
    const int64_t index = bin + (is_row ? piece.row : piece.column);
    if (is_row && index < pooling.out_height && overlaps(roi.y.range(index), tile.row, tile_rows<C>)) {
      atomicOr(&touched.rows[slot], 1u << bin);
    }
    if (!is_row && index < pooling.out_width && overlaps(roi.x.range(index), tile.column, tile_columns)) {
      atomicOr(&touched.columns[slot], 1u << bin);
    }
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(gather_threads)
    gather_boxes(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int32_t, 4> argmax, Pooling pooling,
                 Tiling tiling, Divisor width, bool inner, View<T, 4> grad_features) {
  using C = compute_t<T>;
  constexpr int rows = tile_rows<C>, pixels = rows * tile_columns;
  __shared__ C sums[pixels][gather_threads + 1];  // one more, so that neither channels nor pixels share a bank
  __shared__ Touched touched;
  const unsigned thread = threadIdx.x;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * rows, place % tiling.across * tile_columns};
      const int64_t first_channel = int64_t{chunk} * gather_threads, channel = first_channel + thread;
      const bool has_channel = channel < grad_features.size[1];
      for (int p = 0; p < pixels; ++p) sums[p][thread] = 0;
      const auto touches = [&](unsigned index) {
        const Piece piece(tiling, index);
        const Roi roi = pooling.read_roi(boxes, piece.roi);
        if (roi.image != tile.image) return false;
        const auto all = [](const Side& side, int64_t first, int64_t bins) {
          const int64_t last = (first + piece_bins < bins ? first + piece_bins : bins) - 1;
          return Range{side.range(first).low, side.range(last).high};
        };
        return overlaps(all(roi.y, piece.row, pooling.out_height), tile.row, rows) &&
               overlaps(all(roi.x, piece.column, pooling.out_width), tile.column, tile_columns);
      };
      for_each_batch<gather_threads, gather_batch>(tiling.pieces, touches, [&](const unsigned* list, int count) {
        find_touched<C>(boxes, pooling, tiling, tile, list, count, touched);
#pragma unroll 1
        for (int slot = 0; slot < count && has_channel; ++slot) {
          const Piece piece(tiling, list[slot]);
          const int32_t* const from = &argmax(piece.roi, channel, piece.row, piece.column);
          const T* const gradients = &grad_out(piece.roi, channel, piece.row, piece.column);
#pragma unroll 1
          for (uint64_t bins = touched.bins(slot); bins != 0;) {
            // Eight bins are on their way before the first is used.
            constexpr int at_once = 8;
            int32_t pixel[at_once];
            C value[at_once];
#pragma unroll
            for (int q = 0; q < at_once; ++q) {
              pixel[q] = -1;
              value[q] = 0;
              if (bins != 0) {
                const int bin = __ffsll(static_cast<long long>(bins)) - 1, i = bin / piece_bins, j = bin % piece_bins;
                pixel[q] = from[i * argmax.stride[2] + j * argmax.stride[3]];
                value[q] = static_cast<C>(gradients[i * grad_out.stride[2] + j * grad_out.stride[3]]);
                bins &= bins - 1;
              }
            }
#pragma unroll
            for (int q = 0; q < at_once; ++q) {
              if (pixel[q] < 0) continue;
              const unsigned row = width.quotient(static_cast<unsigned>(pixel[q]));
              const unsigned y = row - tile.row;
              const unsigned x =
                  static_cast<unsigned>(pixel[q]) - row * static_cast<unsigned>(pooling.width) - tile.column;
              if (y < rows && x < tile_columns) sums[y * tile_columns + x][thread] += value[q];
            }
          }
        }
        __syncthreads();
      });
      __syncthreads();  // without boxes there was no barrier
      const int64_t left = grad_features.size[1] - first_channel;
      const int channels = left < gather_threads ? static_cast<int>(left) : gather_threads;
#pragma unroll 1
      for (int index = thread; index < pixels * channels; index += gather_threads) {
        const int pixel = inner ? index / channels : index % pixels, c = inner ? index % channels : index / pixels;
        const int64_t y = tile.row + pixel / tile_columns, x = tile.column + pixel % tile_columns;
        if (y < pooling.height && x < pooling.width) {
          grad_features(image, first_channel + c, y, x) = static_cast<T>(sums[pixel][c]);
        }
      }
      __syncthreads();  // before they are cleared
    }
  }
}

template <class T>
void launch_gather(const View<const T, 4>& grad_out, const View<const float, 2>& boxes,
                   const View<const int32_t, 4>& argmax, const Pooling& pooling, bool inner,
                   const View<T, 4>& grad_features, Stream stream) {
  constexpr int rows = tile_rows<compute_t<T>>;
  const Tiling tiling = tile_images("roi_pool_backward", grad_features, grad_out, rows, tile_columns, gather_threads);
  const Divisor width(static_cast<unsigned>(pooling.width));
  gather_boxes<<<grid_of(tiling, pooling.images), gather_threads, 0, stream>>>(grad_out, boxes, argmax, pooling, tiling,
                                                                               width, inner, grad_features);
}

}  // namespace
