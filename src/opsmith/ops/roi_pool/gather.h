// The gradient of roi_pool on a GPU: a block makes a tile of some channels of an image, whose sums are in shared
// memory.
//
// Its threads take the bins that touch the tile one each, and add the gradient of each to the pixel that was the
// largest. Several bins may have the same pixel. They are added in their order, so that the sums are the same each
// time: a thread claims its pixel, and of those that claim the same one the first adds, then the others claim again.
// Few pixels are the largest of many bins at once, so two or three rounds serve all.
#pragma once

#include "../roi_align/channels.h"
#include "../roi_align/tiles.h"
#include "ranges.h"
#include "roi_pool.h"
#include "shared_memory.h"

namespace {

constexpr int gather_threads = 512;
constexpr int scanned = 256;       // pieces of boxes that are looked at before their bins are taken
constexpr int listed_bins = 1024;  // that are taken at once, at least those of a piece
constexpr int claims = 2048;       // more than there are threads, so that few claim the same for two pixels
constexpr int tile_side = 48;      // at most: 72 KB of sums, so that a multiprocessor has two blocks
constexpr int tile_bytes = 32;     // of a pixel's sums: what memory reads at once, where channels lie side by side
template <class C>
constexpr int tile_channels = tile_bytes / sizeof(C);

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

// The size of a call's tiles, and what its threads divide by.
struct TileSize {
  int rows, columns;
  Divisor by_columns, by_width;  // of a tile, of an image

  OPSMITH_HOST_DEVICE int pixels() const { return rows * columns; }
};

// Behind it lie the sums.
struct GatherMemory {
  int64_t gradient[listed_bins], pixel[listed_bins];  // where the bins are read
  BinRange range[scanned];
  unsigned first[scanned];  // the place of a range's first bin in the list of bins
  unsigned claim[claims];
  unsigned before[scanned / 32];
  unsigned pieces, ranges, bins;  // looked at, listed, listed
};

// The sum of the values of the lanes up to this one.
__device__ inline unsigned sum_up(unsigned value, int lane) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
#if defined(__HIPCC__)
    const unsigned other = __shfl_up(value, distance, 32);
#else
    const unsigned other = __shfl_up_sync(0xffffffffu, value, distance);
#endif
    if (lane >= distance) value += other;
  }
  return value;
}

// Which bins of a piece touch a tile.
__device__ inline BinRange find_touching(const View<const float, 2>& boxes, const Pooling& pooling,
                                         const Tiling& tiling, const Tile& tile, const TileSize& size, unsigned index) {
  BinRange range{index, 0, 0, 0, 0};
  const Piece piece(tiling, index);
  const Roi roi = pooling.read_roi(boxes, piece.roi);
  if (roi.image != tile.image) return range;
  const auto find = [](const Side& side, int64_t first, int64_t all, int low, int high, uint8_t& begin,
                       uint8_t& count) {
    narrow(
        bins_along(first, all), [&](int bin) { return side.range(first + bin).high <= low; },
        [&](int bin) { return side.range(first + bin).low >= high; }, begin, count);
  };
  const int top = static_cast<int>(tile.row), left = static_cast<int>(tile.column);
  find(roi.y, piece.row, pooling.out_height, top, top + size.rows, range.row, range.rows);
  if (range.rows > 0) {
    find(roi.x, piece.column, pooling.out_width, left, left + size.columns, range.column, range.columns);
  }
  return range;
}

// Lists the bins of the next pieces that touch a tile, in their order, as many as there is room for.
template <class T>
__device__ void list_bins(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                          const Tile& tile, const TileSize& size, unsigned next, const View<const T, 4>& grad_out,
                          const View<const int32_t, 4>& argmax, GatherMemory& memory) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  if (thread == 0) memory.pieces = memory.ranges = memory.bins = 0;
  BinRange own{next + thread, 0, 0, 0, 0};
  // Counts of bins, and of ranges from bit 16 on.
  constexpr unsigned one_range = 1u << 16;
  unsigned added = 0, all = 0;
  if (thread < scanned) {
    if (own.piece < tiling.pieces) own = find_touching(boxes, pooling, tiling, tile, size, own.piece);
    if (own.count() > 0) added = own.count() + one_range;
    all = sum_up(added, lane);
    if (lane == 31) memory.before[thread / 32] = all;
  }
  __syncthreads();
  if (thread < scanned) {
    for (int warp = 0; warp < thread / 32; ++warp) all += memory.before[warp];
    if (all % one_range <= listed_bins) {
      atomicMax(&memory.pieces, static_cast<unsigned>(thread) + 1);
      if (added != 0) {
        const unsigned place = all / one_range - 1;
        memory.range[place] = own;
        memory.first[place] = all % one_range - added % one_range;
        atomicMax(&memory.bins, all % one_range);
        atomicMax(&memory.ranges, place + 1);
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (unsigned k = thread / 32; k < memory.ranges; k += gather_threads / 32) {
    const RangeBins bins(tiling, memory.range[k]);
#pragma unroll 1
    for (int bin = lane; bin < bins.range.count(); bin += 32) {
      const BoxBin at = bins(bin);
      const unsigned place = memory.first[k] + bin;
      memory.gradient[place] =
          bins.piece.roi * grad_out.stride[0] + at.row * grad_out.stride[2] + at.column * grad_out.stride[3];
      memory.pixel[place] =
          bins.piece.roi * argmax.stride[0] + at.row * argmax.stride[2] + at.column * argmax.stride[3];
    }
  }
  __syncthreads();
}

// inner: threads side by side have channels side by side; else bins.
template <bool inner, class T>
__global__ void __launch_bounds__(gather_threads, 2)
    gather_boxes(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int32_t, 4> argmax, Pooling pooling,
                 Tiling tiling, TileSize size, View<T, 4> grad_features) {
  using C = compute_t<T>;
  constexpr unsigned unclaimed = ~0u;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<GatherMemory*>(bytes);
  C* const sums = reinterpret_cast<C*>(bytes + sizeof(GatherMemory));
  const unsigned thread = threadIdx.x;
  // A pixel's channels side by side, or one plane after the other, as threads take them.
  const unsigned of_channel = inner ? 1 : size.pixels(), of_pixel = inner ? tile_channels<C> : 1;
  const unsigned places = size.pixels() * tile_channels<C>;
  for (unsigned k = thread; k < claims; k += gather_threads) memory.claim[k] = unclaimed;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * size.rows, place % tiling.across * size.columns};
      const int64_t first_channel = int64_t{chunk} * tile_channels<C>, left = grad_features.size[1] - first_channel;
      const unsigned channels = left < tile_channels<C> ? static_cast<unsigned>(left) : tile_channels<C>;
      const T* const gradients = grad_out.data + first_channel * grad_out.stride[1];
      const int32_t* const pixels = argmax.data + first_channel * argmax.stride[1];
      for (unsigned k = thread; k < places; k += gather_threads) sums[k] = 0;
#pragma unroll 1
      for (unsigned next = 0; next < tiling.pieces; next += memory.pieces) {
        __syncthreads();  // all have read how many pieces there were
        list_bins(boxes, pooling, tiling, tile, size, next, grad_out, argmax, memory);
        const unsigned bins = memory.bins;
        if (bins == 0) continue;
        // What a thread adds next: a bin's gradient of a channel.
        unsigned bin = inner ? thread / tile_channels<C> : thread, channel = inner ? thread % tile_channels<C> : 0;
        int32_t pixel;
        C value;
        const auto read = [&] {
          if constexpr (!inner) {
            while (bin >= bins && channel < channels) bin -= bins, ++channel;
          }
          pixel = -1, value = 0;
          if (bin < bins && channel < channels) {
            pixel = pixels[memory.pixel[bin] + channel * argmax.stride[1]];
            value = static_cast<C>(gradients[memory.gradient[bin] + channel * grad_out.stride[1]]);
          }
        };
        read();
        const unsigned items = bins * (inner ? tile_channels<C> : channels);
#pragma unroll 1
        for (unsigned begin = 0; begin < items; begin += gather_threads) {
          const unsigned row = size.by_width.quotient(static_cast<unsigned>(pixel)), y = row - tile.row;
          const unsigned x = static_cast<unsigned>(pixel) - row * static_cast<unsigned>(pooling.width) - tile.column;
          bool waits = pixel >= 0 && y < static_cast<unsigned>(size.rows) && x < static_cast<unsigned>(size.columns);
          const unsigned at = (y * size.columns + x) * of_pixel + channel * of_channel;
          const C own = value;
          // The next is on its way meanwhile.
          bin += inner ? gather_threads / tile_channels<C> : gather_threads;
          read();
          unsigned& claim = memory.claim[at % claims];
          do {
            if (waits) atomicMin(&claim, thread);
            __syncthreads();
            if (waits && claim == thread) {
              sums[at] += own;
              claim = unclaimed;
              waits = false;
            }
          } while (__syncthreads_or(waits));
        }
      }
      __syncthreads();
      const auto write = [&](unsigned at, unsigned c, C sum) {
        const unsigned row = size.by_columns.quotient(at);
        const int64_t y = tile.row + row, x = tile.column + at - row * size.columns;
        if (y < pooling.height && x < pooling.width && c < channels) {
          grad_features(image, first_channel + c, y, x) = static_cast<T>(sum);
        }
      };
      if constexpr (inner) {
        for (unsigned k = thread; k < places; k += gather_threads) {
          write(k / tile_channels<C>, k % tile_channels<C>, sums[k]);
        }
      } else {
        for (unsigned c = 0; c < channels; ++c) {
          for (unsigned at = thread; at < of_channel; at += gather_threads) write(at, c, sums[c * of_channel + at]);
        }
      }
      __syncthreads();  // before they are cleared
    }
  }
}

template <bool inner, class T>
void launch_gather(const View<const T, 4>& grad_out, const View<const float, 2>& boxes,
                   const View<const int32_t, 4>& argmax, const Pooling& pooling, const View<T, 4>& grad_features,
                   Stream stream) {
  using C = compute_t<T>;
  const auto pieces = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  // Tiles of one size, as far as that goes; smaller ones where there would be too few to fill a GPU.
  int64_t side = tile_side, down, across;
  const int64_t most = (most_shared_memory() - static_cast<int64_t>(sizeof(GatherMemory))) / tile_bytes;
  for (;; side = side * 3 / 4) {
    down = pieces(pooling.height, side), across = pieces(pooling.width, side);
    const int64_t blocks = down * across * pooling.images * pieces(grad_features.size[1], tile_channels<C>);
    if ((blocks >= 512 && side * side <= most) || side <= 6) break;
  }
  const int rows = static_cast<int>(pieces(pooling.height, down));
  const int columns = static_cast<int>(pieces(pooling.width, across));
  const TileSize size{rows, columns, Divisor(static_cast<unsigned>(columns)),
                      Divisor(static_cast<unsigned>(pooling.width))};
  const Tiling tiling = tile_images("roi_pool_backward", grad_features, grad_out, rows, columns, tile_channels<C>);
  const int bytes = static_cast<int>(sizeof(GatherMemory)) + size.pixels() * tile_bytes;
  const auto kernel = gather_boxes<inner, T>;
  allow_shared_memory(kernel, bytes);
  kernel<<<grid_of(tiling, pooling.images), gather_threads, bytes, stream>>>(grad_out, boxes, argmax, pooling, tiling,
                                                                             size, grad_features);
}

}  // namespace
