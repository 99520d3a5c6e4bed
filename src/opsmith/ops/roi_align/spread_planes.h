// The gradient of roi_align where channels do not lie side by side, as in contiguous tensors.
//
// The threads of a row have adjacent channels all the same, so that a warp takes one way. The bins that a tile needs of
// some boxes come by the shared memory: adjacent threads read adjacent bins, which lie side by side in contiguous
// tensors, and many at once. And a thread writes the columns of a row, which do so too.
#pragma once

#include "channels.h"
#include "tile_weights.h"

namespace {

constexpr int plane_threads = 256;
constexpr int plane_columns = 16;
template <class C>
constexpr int plane_width = sizeof(C) == 8 ? 1 : 4;  // channels of a thread, 32 apart
template <class C>
constexpr int loads_at_once = sizeof(C) == 8 ? 8 : 16;

template <class C>
using PlaneWeights = TileWeights<C, plane_columns, plane_threads>;

// Bins of some pieces, each with its channels.
template <class C>
struct Stage {
  static constexpr int size = piece_bins * piece_bins, channels = 32 * plane_width<C>;
  C bin[size][channels + 1];  // one more, so that neither bins nor channels share a bank
  int64_t offset[size];       // where a bin is, from the first of the tensor
  // Of the pieces: bin (i, j) is the one at first + i * columns + j.
  int first[PlaneWeights<C>::batch], columns[PlaneWeights<C>::batch];
};

// The bins of a piece from the first to the last row, and the first to the last column, with weights in a tile.
struct Needed {
  int row, column, rows, columns;

  template <class C>
  __device__ Needed(const PlaneWeights<C>& weights, int slot) {
    const unsigned y = weights.bins_y[slot], x = weights.bins_x[slot];
    row = __ffs(y) - 1, rows = 32 - __clz(y) - row;
    column = __ffs(x) - 1, columns = 32 - __clz(x) - column;
    if (y == 0 || x == 0) rows = columns = 0;
  }
  __device__ int size() const { return rows * columns; }
};

// Reads the bins that are needed of the pieces from `begin` on, as many as there is room for; returns the first that is
// left. To be called by all threads; it ends with a barrier.
template <class T, class C>
__device__ int stage_pieces(const View<const T, 4>& grad_out, const T* from, int channels,
                            const PlaneWeights<C>& weights, int begin, int count, Stage<C>& stage) {
  const int thread = static_cast<int>(threadIdx.x);
  int end = begin, used = 0;
#pragma unroll 1
  for (; end < count; ++end) {
    const Needed needed(weights, end);
    if (used + needed.size() > stage.size) break;
    if (thread < needed.size()) {
      const int i = thread / needed.columns, j = thread - i * needed.columns;
      stage.offset[used + thread] =
          weights.offset[end] + (needed.row + i) * grad_out.stride[2] + (needed.column + j) * grad_out.stride[3];
    }
    if (thread == 0) {
      stage.first[end] = used - needed.row * needed.columns - needed.column;
      stage.columns[end] = needed.columns;
    }
    used += needed.size();
  }
  __syncthreads();
  const int bin = thread % stage.size, first = thread / stage.size;
  if (bin < used) {
    constexpr int step = plane_threads / Stage<C>::size, loads = loads_at_once<C>;
    const T* own = from + stage.offset[bin] + first * grad_out.stride[1];
    if (channels == stage.channels) {
      static_assert(Stage<C>::channels / step % loads == 0);
#pragma unroll
      for (int channel = 0; channel < stage.channels; channel += step * loads) {
        T value[loads];
#pragma unroll
        for (int q = 0; q < loads; ++q, own += step * grad_out.stride[1]) value[q] = *own;
#pragma unroll
        for (int q = 0; q < loads; ++q) {
          stage.bin[bin][channel + first + q * step] = static_cast<C>(value[q]);
        }
      }
    } else {
#pragma unroll 1
      for (int channel = first; channel < channels; channel += step, own += step * grad_out.stride[1]) {
        stage.bin[bin][channel] = static_cast<C>(*own);
      }
    }
  }
  __syncthreads();
  return end;
}

// As add_piece of spread.h; a thread has the channels from `lane` on, 32 apart.
template <class C, int width>
__device__ void add_staged(const PlaneWeights<C>& weights, int slot, int row, int lane, const Stage<C>& stage,
                           C (&sums)[plane_columns][width]) {
  const unsigned above = weights.bins_of_row[slot][row];
  if (above == 0) return;
  const int first = stage.first[slot], columns = stage.columns[slot];
#pragma unroll 1
  for (unsigned left = weights.bins_x[slot]; left != 0; left &= left - 1) {
    const int j = __ffs(left) - 1;
    C down[width] = {};
#pragma unroll 1
    for (unsigned rows = above; rows != 0; rows &= rows - 1) {
      const int i = __ffs(rows) - 1;
      const C weight = weights.y[slot][i][row];
      const C* const value = &stage.bin[first + i * columns + j][lane];
#pragma unroll
      for (int c = 0; c < width; ++c) down[c] += weight * value[c * 32];
    }
    add_across(weights, slot, j, down, sums);
  }
}

// Writes a channel's sums in a row of a tile, whose first `columns` columns are there; as vectors where rows are some.
template <class T, class C, int width>
__device__ void write_row(const C (&sums)[plane_columns][width], int c, int64_t columns, bool vectors, T* line,
                          int64_t stride) {
  constexpr int wide = 16 / sizeof(T);
#pragma unroll
  for (int x = 0; x < plane_columns; x += wide) {
    C part[wide];
#pragma unroll
    for (int v = 0; v < wide; ++v) part[v] = sums[x + v][c];
    const Vector<T, wide> values = rounded<T>(part);
    T* const to = line + x * stride;
    if (vectors) {
      if (x < columns) write_vector(values, to);
    } else {
#pragma unroll
      for (int v = 0; v < wide; ++v) {
        if (x + v < columns) to[v * stride] = values.item[v];
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(plane_threads, 2)
    spread_planes(View<const T, 4> grad_out, View<const float, 2> boxes, Pooling pooling, Tiling tiling, bool vectors,
                  View<T, 4> grad_features) {
  using C = compute_t<T>;
  constexpr int width = plane_width<C>;
  __shared__ PlaneWeights<C> weights;
  __shared__ Stage<C> stage;
  const int row = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * tile_rows, place % tiling.across * plane_columns};
      const int64_t first = int64_t{chunk} * stage.channels, left = grad_features.size[1] - first;
      const int channels = left < stage.channels ? static_cast<int>(left) : stage.channels;
      const T* const from = grad_out.data + first * grad_out.stride[1];
      C sums[plane_columns][width] = {};
      const auto touches = [&](unsigned index) {
        return may_touch<plane_columns>(boxes, pooling, Piece(tiling, index), tile);
      };
      for_each_batch<plane_threads, batch_of<plane_threads>>(
          tiling.pieces, touches, [&](const unsigned* list, int count) {
            weigh(boxes, pooling, tiling, tile, list, count, grad_out, weights);
#pragma unroll 1
            for (int begin = 0, end; begin < count; begin = end) {
              end = stage_pieces(grad_out, from, channels, weights, begin, count, stage);
#pragma unroll 1
              for (int slot = begin; slot < end; ++slot) add_staged(weights, slot, row, lane, stage, sums);
              __syncthreads();
            }
          });
      if (tile.row + row >= pooling.height) continue;
      T* const line = grad_features.data + image * grad_features.stride[0] + (first + lane) * grad_features.stride[1] +
                      (tile.row + row) * grad_features.stride[2] + tile.column * grad_features.stride[3];
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (lane + c * 32 < channels) {
          write_row(sums, c, pooling.width - tile.column, vectors, line + c * 32 * grad_features.stride[1],
                    grad_features.stride[3]);
        }
      }
    }
  }
}

template <class T>
void launch_spread_planes(const View<const T, 4>& grad_out, const View<const float, 2>& boxes, const Pooling& pooling,
                          const View<T, 4>& grad_features, Stream stream) {
  const Tiling tiling = tile_images("roi_align_transposed", grad_features, grad_out, tile_rows, plane_columns,
                                    Stage<compute_t<T>>::channels);
  constexpr int wide = 16 / sizeof(T);
  bool vectors =
      grad_features.stride[3] == 1 && grad_features.size[3] % wide == 0 && is_aligned(grad_features.data, 16);
  for (int dim = 0; dim < 3; ++dim) vectors = vectors && grad_features.stride[dim] % wide == 0;
  spread_planes<<<grid_of(tiling, pooling.images), plane_threads, 0, stream>>>(grad_out, boxes, pooling, tiling,
                                                                               vectors, grad_features);
}

}  // namespace
