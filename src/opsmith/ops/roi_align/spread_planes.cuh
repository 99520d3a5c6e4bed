// The gradient of roi_align where channels do not lie side by side, as in contiguous tensors.
//
// The threads of a row have adjacent channels all the same, so that a warp takes one way. The bins that a tile needs of
// some boxes come by the shared memory: adjacent threads read adjacent bins, which lie side by side in contiguous
// tensors, and many at once. And a thread writes the columns of a row, which do so too.
#pragma once

#include <opsmith/lanes.h>

#include "../_boxes/channels.cuh"
#include "../_gpu/shared_memory.cuh"
#include "tile_weights.cuh"

namespace opsmith::ops::roi_align {
namespace {

using boxes::for_each_batch, boxes::grid_of, boxes::Piece, boxes::piece_bins, boxes::Tile, boxes::tile_images,
    boxes::Tiling, boxes::write_vector;

constexpr int plane_threads = 256;
constexpr int plane_columns = 16;
template <class C>
constexpr int plane_width = sizeof(C) == 8 ? 1 : 4;  // channels of a thread, 32 apart
template <class C>
constexpr int plane_batch = sizeof(C) == 8 ? 16 : 32;  // pieces
template <class C>
constexpr int loads_at_once = sizeof(C) == 8 ? 8 : 16;

template <class C>
using PlaneWeights = TileWeights<C, plane_columns, plane_batch<C>>;

// Bins of some pieces, each with its channels, as they are in memory.
template <class T>
struct Stage {
  using C = compute_t<T>;
  static constexpr int size = sizeof(T) == 2 ? 128 : 64, channels = 32 * plane_width<C>;
  static_assert(size >= piece_bins * piece_bins);
  T bin[size][channels + (sizeof(T) == 2 ? 2 : 1)];  // a word more, so that neither bins nor channels share a bank
};

// Which bins are needed of the pieces of a batch: rectangles, one after the other.
template <class C>
struct NeededBins {
  static constexpr int batch = plane_batch<C>;
  int before[batch + 1];  // of the pieces before
  // A rectangle's rows are so long; a number is divided by that when multiplied by the inverse and shifted by 16 bits.
  int columns[batch], inverse[batch];
  int first[batch];       // bin (i, j) of a piece is number first + i * columns + j of all
  int64_t offset[batch];  // of a rectangle's first bin in grad_out
};

// In shared memory: less than 64 KiB, with the list of pieces, which is as much as the smallest GPUs have.
template <class T>
struct PlaneMemory {
  PlaneWeights<compute_t<T>> weights;
  NeededBins<compute_t<T>> needed;
  Stage<T> stage;
};

// The bins of a piece from the first to the last row, and the first to the last column, with weights in a tile.
struct Rectangle {
  int row, column, rows, columns;

  template <class C>
  __device__ Rectangle(const PlaneWeights<C>& weights, int slot) {
    const unsigned y = weights.bins_y[slot], x = weights.bins_x[slot];
    row = __ffs(y) - 1, rows = 32 - __clz(y) - row;
    column = __ffs(x) - 1, columns = 32 - __clz(x) - column;
    if (y == 0 || x == 0) rows = columns = 0;
  }
  __device__ int size() const { return rows * columns; }
};

// Finds the bins that are needed of some pieces. To be called by all threads; it ends with a barrier.
template <class T, class C>
__device__ void find_needed(const View<const T, 4>& grad_out, const PlaneWeights<C>& weights, int count,
                            NeededBins<C>& needed) {
  constexpr int batch = plane_batch<C>;
  if (const int lane = static_cast<int>(threadIdx.x); lane < lanes) {
    const int slot = lane < count ? lane : 0;
    const Rectangle own(weights, slot);
    const int size = lane < count ? own.size() : 0;
    int up_to = size;
#pragma unroll
    for (int distance = 1; distance < batch; distance *= 2) {
      const int other = shuffle_up(up_to, distance);
      if (lane >= distance) up_to += other;
    }
    if (lane == 0) needed.before[0] = 0;
    if (lane < batch) {
      needed.before[lane + 1] = up_to;
      needed.columns[lane] = own.columns;
      needed.inverse[lane] = own.columns > 0 ? 65535 / own.columns + 1 : 0;
      needed.first[lane] = up_to - size - own.row * own.columns - own.column;
      needed.offset[lane] = weights.offset[slot] + own.row * grad_out.stride[2] + own.column * grad_out.stride[3];
    }
  }
  __syncthreads();
}

// Reads the bins that are needed of the pieces from `begin` on, as many as there is room for; returns the first that is
// left. To be called by all threads; it ends with a barrier.
template <class T, class C>
__device__ int stage_pieces(const View<const T, 4>& grad_out, const T* from, int channels, const NeededBins<C>& needed,
                            int begin, int count, Stage<T>& stage) {
  constexpr int batch = plane_batch<C>;
  const int before = needed.before[begin];
  int end = begin;  // found by halves, as is the piece of a bin below
#pragma unroll
  for (int step = batch; step > 0; step /= 2) {
    if (end + step <= count && needed.before[end + step] - before <= stage.size) end += step;
  }
  const int thread = static_cast<int>(threadIdx.x), bin = thread % stage.size, first = thread / stage.size;
  if (bin < needed.before[end] - before) {
    int slot = begin;  // the piece it is of
#pragma unroll
    for (int step = batch / 2; step > 0; step /= 2) {
      if (slot + step < end && needed.before[slot + step] - before <= bin) slot += step;
    }
    const int place = bin + before - needed.before[slot], i = place * needed.inverse[slot] >> 16;
    const int j = place - i * needed.columns[slot];
    constexpr int step = plane_threads / Stage<T>::size, loads = loads_at_once<C>;
    const T* own =
        from + needed.offset[slot] + i * grad_out.stride[2] + j * grad_out.stride[3] + first * grad_out.stride[1];
    if (channels == stage.channels) {
      static_assert(Stage<T>::channels / step % loads == 0);
#pragma unroll
      for (int channel = 0; channel < stage.channels; channel += step * loads) {
        T value[loads];
#pragma unroll
        for (int q = 0; q < loads; ++q, own += step * grad_out.stride[1]) value[q] = *own;
#pragma unroll
        for (int q = 0; q < loads; ++q) stage.bin[bin][channel + first + q * step] = value[q];
      }
    } else {
#pragma unroll 1
      for (int channel = first; channel < channels; channel += step, own += step * grad_out.stride[1]) {
        stage.bin[bin][channel] = *own;
      }
    }
  }
  __syncthreads();
  return end;
}

// As add_piece of spread.cuh; a thread has the channels from `lane` on, 32 apart. Bin (i, j) is staged at
// first + i * columns + j.
template <class T, class C, int width>
__device__ void add_staged(const PlaneWeights<C>& weights, int slot, int row, int lane, const Stage<T>& stage,
                           int first, int columns, C (&sums)[plane_columns][width]) {
  const unsigned above = weights.bins_of_row[slot][row];
#pragma unroll 1
  for (unsigned left = weights.bins_x[slot]; left != 0; left &= left - 1) {
    const int j = __ffs(left) - 1;
    C down[width] = {};
#pragma unroll 1
    for (unsigned rows = above; rows != 0; rows &= rows - 1) {
      const int i = __ffs(rows) - 1;
      const C weight = weights.y[slot][i][row];
      const T* const value = &stage.bin[first + i * columns + j][lane];
#pragma unroll
      for (int c = 0; c < width; ++c) down[c] += weight * static_cast<C>(value[c * 32]);
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
  extern __shared__ __align__(16) char plane_bytes[];
  auto& memory = *reinterpret_cast<PlaneMemory<T>*>(plane_bytes);
  auto& weights = memory.weights;
  auto& needed = memory.needed;
  auto& stage = memory.stage;
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
      for_each_batch<plane_threads, plane_batch<C>>(tiling.pieces, touches, [&](const unsigned* list, int count) {
        weigh<plane_threads>(boxes, pooling, tiling, tile, list, count, grad_out, weights);
        const unsigned pieces = weights.pieces_of_row(row, count);
        find_needed(grad_out, weights, count, needed);
#pragma unroll 1
        for (int begin = 0, end; begin < count; begin = end) {
          end = stage_pieces(grad_out, from, channels, needed, begin, count, stage);
          const int before = needed.before[begin];
#pragma unroll 1
          for (unsigned left = pieces >> begin << begin & ~0u >> (32 - end); left != 0; left &= left - 1) {
            const int slot = __ffs(left) - 1;
            add_staged(weights, slot, row, lane, stage, needed.first[slot] - before, needed.columns[slot], sums);
          }
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
  const Tiling tiling =
      tile_images("roi_align_transposed", grad_features, grad_out, tile_rows, plane_columns, Stage<T>::channels);
  constexpr int wide = 16 / sizeof(T);
  bool vectors =
      grad_features.stride[3] == 1 && grad_features.size[3] % wide == 0 && is_aligned(grad_features.data, 16);
  for (int dim = 0; dim < 3; ++dim) vectors = vectors && grad_features.stride[dim] % wide == 0;
  constexpr int bytes = sizeof(PlaneMemory<T>);
  static_assert(bytes <= 62 << 10);
  gpu::allow_shared_memory(spread_planes<T>, bytes);
  spread_planes<<<grid_of(tiling, pooling.images), plane_threads, bytes, stream>>>(grad_out, boxes, pooling, tiling,
                                                                                   vectors, grad_features);
}

}  // namespace
}  // namespace opsmith::ops::roi_align
