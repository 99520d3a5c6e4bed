// The gradient of roi_pool on a GPU: a block makes a tile of some channels of an image, whose sums are in shared
// memory.
//
// Its threads take the bins that touch the tile one each, and add the gradient of each to the pixel that was the
// largest. Several bins may have the same pixel, and they are added in their order, so that the sums are the same each
// time: a thread claims its pixel, and of those that claim the same one the first adds, then the others claim again.
// Few pixels are the largest of many bins at once, so two or three rounds serve all.
#pragma once

#include "../roi_align/channels.h"
#include "../roi_align/tiles.h"
#include "roi_pool.h"

namespace {

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

template <bool inner_, int rows_, int columns_, int channels_, int threads_, int scanned_, int blocks_>
struct SumShape {
  static constexpr bool inner = inner_;
  static constexpr int rows = rows_, columns = columns_, channels = channels_, pixels = rows * columns;
  static constexpr int threads = threads_, blocks = blocks_;
  static constexpr int scanned = scanned_;  // boxes that are looked at before their bins are taken
  static constexpr int bins = 1024;         // that are taken at once, at least those of a piece
  static constexpr int claims = 2048;       // more than there are threads, so that few claim the same for two pixels
};

// Some bins of a piece: of 8 x 8.
struct Touch {
  unsigned piece, first;  // first: the place of its first bin in the list of bins
  uint8_t row, rows, column, columns;
};

template <class Shape, class C>
struct SumMemory {
  C sum[Shape::pixels * Shape::channels];
  int64_t gradient[Shape::bins], pixel[Shape::bins];  // the places of the bins
  Touch touch[Shape::scanned];
  unsigned claim[Shape::claims];
  unsigned before[Shape::scanned / 32];
  unsigned end, ends, touches;  // of the bins, of the pieces
};

// Which of the bins of a piece along an axis, `count` from `first` on, have one of `size` pixels from `low` on.
__device__ inline void find_touching(const Side& side, int64_t first, int count, int low, int size, uint8_t& begin,
                                     uint8_t& found) {
  int from = 0, to = count;
  if (side.range(first).low >= low + size || side.range(first + count - 1).high <= low) to = 0;
  while (from < to && side.range(first + from).high <= low) ++from;
  while (from < to && side.range(first + to - 1).low >= low + size) --to;
  begin = static_cast<uint8_t>(from), found = static_cast<uint8_t>(to - from);
}

__device__ inline unsigned up(unsigned value, int distance) {
#if defined(__HIPCC__)
  return __shfl_up(value, distance, 32);
#else
  return __shfl_up_sync(0xffffffffu, value, distance);
#endif
}

// Lists the bins of the next pieces that touch a tile, in their order; returns how many pieces have been looked at.
template <class Shape, class C, class T>
__device__ unsigned list_bins(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                              const Tile& tile, unsigned next, const View<const T, 4>& grad_out,
                              const View<const int32_t, 4>& argmax, SumMemory<Shape, C>& memory) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  if (thread == 0) memory.ends = memory.end = memory.touches = 0;
  Touch touch{next + thread, 0, 0, 0, 0, 0};
  unsigned all = 0;  // bins, and pieces from bit 16 on, up to this one
  const bool scans = thread < Shape::scanned;
  if (scans) {
    if (touch.piece < tiling.pieces) {
      const Piece piece(tiling, touch.piece);
      const Roi roi = pooling.read_roi(boxes, piece.roi);
      if (roi.image == tile.image) {
        const auto bins = [](int64_t first, int64_t count) {
          return static_cast<int>(count - first < piece_bins ? count - first : piece_bins);
        };
        find_touching(roi.y, piece.row, bins(piece.row, pooling.out_height), static_cast<int>(tile.row), Shape::rows,
                      touch.row, touch.rows);
        if (touch.rows > 0) {
          find_touching(roi.x, piece.column, bins(piece.column, pooling.out_width), static_cast<int>(tile.column),
                        Shape::columns, touch.column, touch.columns);
        }
      }
    }
    all = touch.rows * touch.columns > 0 ? touch.rows * touch.columns + 0x10000u : 0;
  }
  const unsigned own = all;
  if (scans) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const unsigned other = up(all, distance);
      if (lane >= distance) all += other;
    }
    if (lane == 31) memory.before[thread / 32] = all;
  }
  __syncthreads();
  if (scans) {
    for (int warp = 0; warp < thread / 32; ++warp) all += memory.before[warp];
    if ((all & 0xffff) <= Shape::bins) {
      atomicMax(&memory.ends, static_cast<unsigned>(thread) + 1);
      if (own != 0) {
        touch.first = (all & 0xffff) - (own & 0xffff);
        memory.touch[(all >> 16) - 1] = touch;
        atomicMax(&memory.end, all & 0xffff);
        atomicMax(&memory.touches, all >> 16);
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (unsigned k = thread / 32; k < memory.touches; k += Shape::threads / 32) {
    const Touch found = memory.touch[k];
    const Piece piece(tiling, found.piece);
    const int bins = found.rows * found.columns;
    const unsigned inverse = 65535u / found.columns + 1;
    for (int bin = lane; bin < bins; bin += 32) {
      const int i = static_cast<int>(bin * inverse >> 16), j = bin - i * found.columns;
      const int64_t row = piece.row + found.row + i, column = piece.column + found.column + j;
      memory.gradient[found.first + bin] =
          piece.roi * grad_out.stride[0] + row * grad_out.stride[2] + column * grad_out.stride[3];
      memory.pixel[found.first + bin] =
          piece.roi * argmax.stride[0] + row * argmax.stride[2] + column * argmax.stride[3];
    }
  }
  __syncthreads();
  return memory.ends;
}

template <class Shape, class T>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    sum_tiles(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int32_t, 4> argmax, Pooling pooling,
              Tiling tiling, Divisor width, View<T, 4> grad_features) {
  using C = compute_t<T>;
  constexpr unsigned free = ~0u;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<SumMemory<Shape, C>*>(bytes);
  const unsigned thread = threadIdx.x;
  for (unsigned k = thread; k < Shape::claims; k += Shape::threads) memory.claim[k] = free;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned index = blockIdx.x; index < tiling.parts; index += gridDim.x) {
      const unsigned chunk = index % tiling.chunks, place = index / tiling.chunks;
      const Tile tile{image, place / tiling.across * Shape::rows, place % tiling.across * Shape::columns};
      const int64_t first_channel = int64_t{chunk} * Shape::channels, left = grad_features.size[1] - first_channel;
      const unsigned channels = left < Shape::channels ? static_cast<unsigned>(left) : Shape::channels;
      const T* const gradients = grad_out.data + first_channel * grad_out.stride[1];
      const int32_t* const pixels = argmax.data + first_channel * argmax.stride[1];
      for (unsigned k = thread; k < Shape::pixels * Shape::channels; k += Shape::threads) memory.sum[k] = 0;
#pragma unroll 1
      for (unsigned next = 0; next < tiling.pieces;) {
        next += list_bins(boxes, pooling, tiling, tile, next, grad_out, argmax, memory);
        const unsigned end = memory.end;
        // The item of a thread: a bin and a channel.
        unsigned bin = Shape::inner ? thread / Shape::channels : thread;
        unsigned channel = Shape::inner ? thread % Shape::channels : 0;
        int32_t pixel;
        C value;
        const auto read = [&] {
          if constexpr (!Shape::inner) {
            while (bin >= end && channel < channels) bin -= end, ++channel;
          }
          pixel = -1, value = 0;
          if (bin < end && channel < channels) {
            pixel = pixels[memory.pixel[bin] + channel * argmax.stride[1]];
            value = static_cast<C>(gradients[memory.gradient[bin] + channel * grad_out.stride[1]]);
          }
        };
        if (end > 0) read();
        const unsigned items = end * (Shape::inner ? Shape::channels : channels);
#pragma unroll 1
        for (unsigned begin = 0; begin < items; begin += Shape::threads) {
          const unsigned row = width.quotient(static_cast<unsigned>(pixel));
          const unsigned y = row - tile.row;
          const unsigned x = static_cast<unsigned>(pixel) - row * static_cast<unsigned>(pooling.width) - tile.column;
          bool waits = pixel >= 0 && y < Shape::rows && x < Shape::columns;
          const unsigned at = y * Shape::columns + x;
          const unsigned cell = Shape::inner ? at * Shape::channels + channel : channel * Shape::pixels + at;
          const C own = value;
          // The next item is on its way meanwhile.
          bin += Shape::inner ? Shape::threads / Shape::channels : Shape::threads;
          read();
          unsigned& claim = memory.claim[cell % Shape::claims];
          do {
            if (waits) atomicMin(&claim, thread);
            __syncthreads();
            if (waits && claim == thread) {
              memory.sum[cell] += own;
              claim = free;
              waits = false;
            }
          } while (__syncthreads_or(waits));
        }
        __syncthreads();
      }
#pragma unroll 4
      for (unsigned k = thread; k < Shape::pixels * Shape::channels; k += Shape::threads) {
        const unsigned pixel = Shape::inner ? k / Shape::channels : k % Shape::pixels;
        const unsigned c = Shape::inner ? k % Shape::channels : k / Shape::pixels;
        const int64_t y = tile.row + pixel / Shape::columns, x = tile.column + pixel % Shape::columns;
        if (y < pooling.height && x < pooling.width && c < channels) {
          grad_features(image, first_channel + c, y, x) = static_cast<T>(memory.sum[k]);
        }
      }
      __syncthreads();  // before they are cleared
    }
  }
}

template <class Shape, class T>
void launch_sums(const View<const T, 4>& grad_out, const View<const float, 2>& boxes,
                 const View<const int32_t, 4>& argmax, const Pooling& pooling, const View<T, 4>& grad_features,
                 Stream stream) {
  const Tiling tiling =
      tile_images("roi_pool_backward", grad_features, grad_out, Shape::rows, Shape::columns, Shape::channels);
  const Divisor width(static_cast<unsigned>(pooling.width));
  constexpr int bytes = sizeof(SumMemory<Shape, compute_t<T>>);
  const auto kernel = sum_tiles<Shape, T>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<grid_of(tiling, pooling.images), Shape::threads, bytes, stream>>>(grad_out, boxes, argmax, pooling, tiling,
                                                                             width, grad_features);
}

}  // namespace
