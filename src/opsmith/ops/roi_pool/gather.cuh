// The gradient of roi_pool on a GPU: a block makes a tile of some channels of an image, whose sums are in shared
// memory.
//
// A warp has a channel, and adds the gradients of the bins that touch the tile, in their order, to the pixels that were
// the largest. Its lanes take 32 bins at a time. Few of these have the same pixel: of such lanes one adds for all.
// So no two warps write to one sum, and the sums are the same bit for bit each time.
#pragma once

#include "../_boxes/channels.cuh"
#include "../_gpu/global_memory.cuh"
#include "../_gpu/shared_memory.cuh"
#include "gather_add.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::are_vectors, boxes::for_each_batch, boxes::grid_of, boxes::Piece, boxes::piece_bins, boxes::Tile,
    boxes::tile_images, boxes::Tiling, boxes::write_vector;

constexpr int gather_bytes = 110 << 10;  // of a block, so that a multiprocessor has room for two

// In shared memory; behind it lie the sums.
template <bool inner, class C>
struct alignas(32) GatherMemory {
  BinList list;
  Staged<C> staged;
};
template <class C>
struct alignas(32) GatherMemory<false, C> {
  BinList list;
};

// Writes the sums: vectors of `width` pixels, a warp to a channel, or of as many channels, pixel by pixel.
template <bool inner, int width, class T>
__device__ void write_tile(const Tile& tile, const TileSize& size, unsigned first_channel, unsigned channels,
                           const compute_t<T>* sums, const View<T, 4>& grad_features) {
  using C = compute_t<T>;
  constexpr int groups = inner ? gather_channels / width : gather_channels;
  const unsigned group = inner ? threadIdx.x % groups : threadIdx.x / 32, channel = inner ? group * width : group;
  if (channel >= channels) return;
  const int64_t below = grad_features.size[2] - tile.row, right = grad_features.size[3] - tile.column;
  const int rows = below < size.rows ? static_cast<int>(below) : size.rows;
  const int columns = (right < size.columns ? static_cast<int>(right) : size.columns) / (inner ? 1 : width);
  constexpr int step = inner ? gather_threads / groups : 32;
  const int first = inner ? threadIdx.x / groups : threadIdx.x % 32;
  // The steps to a thread's next place.
  const int step_rows = step / columns, step_columns = step - step_rows * columns;
  constexpr int pixels = inner ? 1 : width;
  int row = first / columns, column = first - row * columns;
  const C* const from = sums + channel * size.pitch;
  T* const to = &grad_features(tile.image, first_channel + channel, tile.row, tile.column);
#pragma unroll 2
  while (row < rows) {
    C values[width];
    if constexpr (inner) {
#pragma unroll
      for (int c = 0; c < width; ++c) values[c] = from[row * size.columns + column + c * size.pitch];
    } else {
      const auto vector = *reinterpret_cast<const Vector<C, width>*>(from + row * size.columns + column * width);
#pragma unroll
      for (int c = 0; c < width; ++c) values[c] = vector.item[c];
    }
    T* const place = to + row * grad_features.stride[2] + column * pixels * grad_features.stride[3];
    if constexpr (width > 1) {
      write_vector(rounded<T>(values), place);
    } else {
      *place = static_cast<T>(values[0]);
    }
    row += step_rows, column += step_columns;
    if (column >= columns) ++row, column -= columns;
  }
}

template <bool inner, int width, class T>
__global__ void __launch_bounds__(gather_threads, 2)
    gather_boxes(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int32_t, 4> argmax, Pooling pooling,
                 Tiling tiling, TileSize size, View<T, 4> grad_features) {
  using C = compute_t<T>;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<GatherMemory<inner, C>*>(bytes);
  C* const sums = reinterpret_cast<C*>(bytes + sizeof(memory));
  const unsigned thread = threadIdx.x, warp = thread / 32;
  const BinSteps steps{{grad_out.stride[0], argmax.stride[0]},
                       {grad_out.stride[2], argmax.stride[2]},
                       {grad_out.stride[3], argmax.stride[3]}};
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * size.rows, place % tiling.across * size.columns};
      const unsigned first_channel = chunk * gather_channels;
      const unsigned left = static_cast<unsigned>(grad_features.size[1]) - first_channel;
      const unsigned channels = left < gather_channels ? left : gather_channels;
      const T* const gradients = grad_out.data + first_channel * grad_out.stride[1];
      const int32_t* const pixels = argmax.data + first_channel * argmax.stride[1];
      for (int k = 2 * thread; k < size.pitch * gather_channels; k += 2 * gather_threads) {
        *reinterpret_cast<Vector<C, 2>*>(sums + k) = {};
      }
      const auto touches = [&](unsigned index) {
        const Piece piece(tiling, index);
        const Roi roi = pooling.read_roi(boxes, piece.roi);
        // A pixel more on either side than rounding takes; which bins touch is found below.
        const auto overlaps = [](const Side& side, int64_t first, unsigned low, int size) {
          const float begin = side.start + side.bin * static_cast<float>(static_cast<int32_t>(first));
          return begin - 2.0f < static_cast<float>(low + size) &&
                 begin + side.bin * piece_bins + 2.0f > static_cast<float>(low);
        };
        return roi.image == image && overlaps(roi.y, piece.row, tile.row, size.rows) &&
               overlaps(roi.x, piece.column, tile.column, size.columns);
      };
      for_each_batch<gather_threads, gather_batch>(tiling.pieces, touches, [&](const unsigned* pieces, int count) {
        memory.list.template find<gather_threads>(boxes, pooling, tiling, tile, size.rows, size.columns, steps, pieces,
                                                  count);
        C* const own = sums + warp * size.pitch;
#pragma unroll 1
        for (unsigned begin = 0; begin < memory.list.all; begin += listed_bins) {
          const unsigned bins = memory.list.template list<gather_threads>(steps, begin);
          if constexpr (inner) {
            add_inner(tile, size, gradients, pixels, grad_out.stride[1], argmax.stride[1], channels, memory.list.bin,
                      bins, memory.staged, own);
          } else if (warp < channels) {
            add_planes(tile, size, gpu::keep_pointer(gradients + warp * grad_out.stride[1]),
                       gpu::keep_pointer(pixels + warp * argmax.stride[1]), memory.list.bin, bins, own);
          }
          __syncthreads();  // all are done with these bins
        }
      });
      __syncthreads();  // without boxes there was no barrier
      write_tile<inner, width>(tile, size, first_channel, channels, sums, grad_features);
      __syncthreads();  // before they are cleared
    }
  }
}

// The size of a call's tiles, where there is room for so many bytes of sums.
template <bool inner, class C>
TileSize size_tiles(const Pooling& pooling, int64_t chunks, int64_t bytes) {
  const auto pieces = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  // Sizes as equal as they can be, none larger than this.
  const auto even = [&](int64_t n, int64_t size) { return pieces(n, pieces(n, size)); };
  const int64_t most = bytes / (gather_channels * static_cast<int64_t>(sizeof(C))) - 34;  // pixels
  int64_t most_rows = most, most_columns = inner ? 32 : 64, rows, columns;
  for (;;) {
    columns = pieces(even(pooling.width, most_columns), 8) * 8;  // begin at multiples of 16 bytes
    const int64_t fit = most / columns > 1 ? most / columns : 1;
    rows = even(pooling.height, most_rows < fit ? most_rows : fit);
    const int64_t tiles = pieces(pooling.height, rows) * pieces(pooling.width, columns) * pooling.images;
    if (tiles * chunks >= 256 || rows * columns <= 64) break;  // smaller ones, where there are too few to fill a GPU
    (columns > rows ? most_columns : most_rows) = (columns > rows ? columns : rows) / 2;
  }
  // Four channels of eight pixels, as write_tile reads them where channels lie side by side, are in different banks.
  const int pitch = static_cast<int>(rows * columns) + 32 + (inner ? 2 : 0), width = static_cast<int>(pooling.width);
  return {static_cast<int>(rows), static_cast<int>(columns), pitch, width, Divisor(static_cast<unsigned>(width))};
}

template <bool inner, int width, class T>
void launch_gather(const View<const T, 4>& grad_out, const View<const float, 2>& boxes,
                   const View<const int32_t, 4>& argmax, const Pooling& pooling, const View<T, 4>& grad_features,
                   Stream stream) {
  using C = compute_t<T>;
  constexpr int header = sizeof(GatherMemory<inner, C>);
  const int most = gpu::most_shared_memory(), bytes = most < gather_bytes ? most : gather_bytes;
  const int64_t chunks = (grad_features.size[1] + gather_channels - 1) / gather_channels;
  const TileSize size = size_tiles<inner, C>(pooling, chunks, bytes - header);
  const Tiling tiling =
      tile_images("roi_pool_backward", grad_features, grad_out, size.rows, size.columns, gather_channels);
  const int needed = header + size.pitch * gather_channels * static_cast<int>(sizeof(C));
  const auto kernel = gather_boxes<inner, width, T>;
  gpu::allow_shared_memory(kernel, needed);
  kernel<<<grid_of(tiling, pooling.images), gather_threads, needed, stream>>>(grad_out, boxes, argmax, pooling, tiling,
                                                                              size, grad_features);
}

template <bool inner, class T>
void launch_gather(const View<const T, 4>& grad_out, const View<const float, 2>& boxes,
                   const View<const int32_t, 4>& argmax, const Pooling& pooling, const View<T, 4>& grad_features,
                   Stream stream) {
  const int64_t* const stride = grad_features.stride;
  const bool are_lines = stride[3] == 1 && stride[2] % 4 == 0 && stride[1] % 4 == 0 && stride[0] % 4 == 0 &&
                         pooling.width % 4 == 0 && is_aligned(grad_features.data, 4 * sizeof(T));
  if (inner ? are_vectors<4>(grad_features) : are_lines) {
    launch_gather<inner, 4>(grad_out, boxes, argmax, pooling, grad_features, stream);
  } else {
    launch_gather<inner, 1>(grad_out, boxes, argmax, pooling, grad_features, stream);
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
