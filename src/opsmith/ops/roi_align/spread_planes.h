// The gradient of roi_align where channels do not lie side by side, as in contiguous tensors.
//
// Threads have adjacent channels all the same, so that those of a row take the same way. The bins that a tile needs of
// some boxes come by the shared memory, where they lie by channels: each warp reads those of one box, adjacent bins by
// adjacent threads. And a thread writes the columns of a row, which are adjacent.
#pragma once

#include "channels.h"
#include "tile_weights.h"

namespace {

constexpr int plane_columns = 16;
template <class C>
constexpr int plane_width = sizeof(C) == 8 ? 1 : 4;  // channels of a thread, whose vector of sums fits 16 bytes
template <class C>
constexpr int plane_channels = 32 * plane_width<C>;

// Bins of some pieces, each with its channels. A vector more, so that bins of a channel do not share a bank.
template <class C>
struct Stage {
  static constexpr int size = piece_bins * piece_bins;
  alignas(16) C bin[size][plane_channels<C> + plane_width<C>];
};

// The bins of a piece from the first to the last row, and the first to the last column, with weights in a tile.
struct Needed {
  int row, column, rows, columns;

  template <class C>
  __device__ Needed(const TileWeights<C, plane_columns>& weights, int slot) {
    const unsigned y = weights.bins_y[slot], x = weights.bins_x[slot];
    row = __ffs(y) - 1, rows = 32 - __clz(y) - row;
    column = __ffs(x) - 1, columns = 32 - __clz(x) - column;
    if (y == 0 || x == 0) rows = columns = 0;
  }
  __device__ int size() const { return rows * columns; }
};

// Reads them, by 32 threads.
template <class T, class C, int length>
__device__ void stage_piece(const View<const T, 4>& grad_out, const T* bins, const Needed& needed, int channels,
                            C (*to)[length]) {
  if (needed.size() == 0) return;
  const int lane = threadIdx.x % 32, bits = 32 - __clz(needed.columns - 1);  // 2^bits threads for a row of bins
  const int j = lane & ((1 << bits) - 1);
  if (j >= needed.columns) return;
  const T* const from = bins + needed.row * grad_out.stride[2] + (needed.column + j) * grad_out.stride[3];
#pragma unroll 4
  for (int channel = lane >> bits; channel < channels; channel += 32 >> bits) {
    for (int i = 0; i < needed.rows; ++i) {
      to[i * needed.columns + j][channel] = static_cast<C>(from[channel * grad_out.stride[1] + i * grad_out.stride[2]]);
    }
  }
}

// As add_piece of spread.h; `stage` is where the needed bins have a thread's channels.
template <class C, int width>
__device__ void add_staged(const TileWeights<C, plane_columns>& weights, int slot, int row, const Needed& needed,
                           const C* stage, C (&sums)[plane_columns][width]) {
  const unsigned above = weights.bins_of_row[slot][row];
  if (above == 0) return;
#pragma unroll 1
  for (unsigned left = weights.bins_x[slot]; left != 0; left &= left - 1) {
    const int j = __ffs(left) - 1;
    C down[width] = {};
#pragma unroll 1
    for (unsigned rows = above; rows != 0; rows &= rows - 1) {
      const int i = __ffs(rows) - 1, bin = (i - needed.row) * needed.columns + j - needed.column;
      const C weight = weights.y[slot][i][row];
      const auto value = *reinterpret_cast<const Vector<C, width>*>(stage + bin * (plane_channels<C> + width));
#pragma unroll
      for (int c = 0; c < width; ++c) down[c] += weight * value.item[c];
    }
    add_across(weights, slot, j, down, sums);
  }
}

// Writes a row of a tile's sums; `count` channels and `columns` columns are there. Rows are vectors where `vectors`.
template <class T, class C, int width>
__device__ void write_row(const C (&sums)[plane_columns][width], int count, int64_t columns, bool vectors, T* line,
                          int64_t channel_stride, int64_t column_stride) {
  constexpr int wide = 16 / sizeof(T);
#pragma unroll
  for (int c = 0; c < width; ++c) {
    if (c >= count) return;
#pragma unroll
    for (int x = 0; x < plane_columns; x += wide) {
      Vector<T, wide> rounded;
#pragma unroll
      for (int v = 0; v < wide; ++v) rounded.item[v] = static_cast<T>(sums[x + v][c]);
      T* const to = line + c * channel_stride + x * column_stride;
      if (vectors) {
        if (x < columns) write_vector(rounded, to);
      } else {
#pragma unroll
        for (int v = 0; v < wide; ++v) {
          if (x + v < columns) to[v * column_stride] = rounded.item[v];
        }
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(spread_threads, 2)
    spread_planes(View<const T, 4> grad_out, View<const float, 2> boxes, Pooling pooling, Tiling tiling, bool vectors,
                  View<T, 4> grad_features) {
  using C = compute_t<T>;
  constexpr int width = plane_width<C>;
  __shared__ TileWeights<C, plane_columns> weights;
  __shared__ Stage<C> stage;
  const int row = threadIdx.x / 32, group = threadIdx.x % 32;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * tile_rows, place % tiling.across * plane_columns};
      const int64_t first = int64_t{chunk} * plane_channels<C>, left = grad_features.size[1] - first;
      const int channels = left < plane_channels<C> ? static_cast<int>(left) : plane_channels<C>;
      const T* const own = grad_out.data + first * grad_out.stride[1];
      C sums[plane_columns][width] = {};
      const auto touches = [&](unsigned index) {
        return may_touch<plane_columns>(boxes, pooling, Piece(tiling, index), tile);
      };
      for_each_batch<spread_threads, batch>(tiling.pieces, touches, [&](const unsigned* list, int count) {
        weigh(boxes, pooling, tiling, tile, list, count, grad_out, weights);
#pragma unroll 1
        for (int begin = 0, end = 0; begin < count; begin = end) {
          int used = 0;
#pragma unroll 1
          for (; end < count; ++end) {
            const Needed needed(weights, end);
            if (used + needed.size() > stage.size) break;
            if (end % tile_rows == row) {
              stage_piece(grad_out, own + weights.offset[end], needed, channels, &stage.bin[used]);
            }
            used += needed.size();
          }
          __syncthreads();
          used = 0;
#pragma unroll 1
          for (int slot = begin; slot < end; ++slot) {
            const Needed needed(weights, slot);
            add_staged(weights, slot, row, needed, &stage.bin[used][group * width], sums);
            used += needed.size();
          }
          __syncthreads();
        }
      });
      if (tile.row + row >= pooling.height) continue;
      T* const line = grad_features.data + image * grad_features.stride[0] +
                      (first + group * width) * grad_features.stride[1] + (tile.row + row) * grad_features.stride[2] +
                      tile.column * grad_features.stride[3];
      write_row(sums, channels - group * width, pooling.width - tile.column, vectors, line, grad_features.stride[1],
                grad_features.stride[3]);
    }
  }
}

template <class T>
void launch_spread_planes(const View<const T, 4>& grad_out, const View<const float, 2>& boxes, const Pooling& pooling,
                          const View<T, 4>& grad_features, Stream stream) {
  const Tiling tiling = tile_images("roi_align_transposed", grad_features, grad_out, tile_rows, plane_columns,
                                    plane_channels<compute_t<T>>);
  constexpr int wide = 16 / sizeof(T);
  bool vectors =
      grad_features.stride[3] == 1 && grad_features.size[3] % wide == 0 && is_aligned(grad_features.data, 16);
  for (int dim = 0; dim < 3; ++dim) vectors = vectors && grad_features.stride[dim] % wide == 0;
  spread_planes<<<grid_of(tiling, pooling.images), spread_threads, 0, stream>>>(grad_out, boxes, pooling, tiling,
                                                                                vectors, grad_features);
}

}  // namespace
