// How the gradients of listed bins are added to a tile's sums: a warp has a channel, and its lanes a bin each.
#pragma once

#include <opsmith/lanes.h>

#include "../_gpu/global_memory.cuh"
#include "gather_list.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Tile;

constexpr int gather_channels = 16;  // of a tile: a warp each
constexpr int gather_threads = 32 * gather_channels;

// Division of numbers below 2^31 by one that is known before the launch, by Granlund and Montgomery, "Division by
// Invariant Integers using Multiplication" (1994), in a few instructions in place of twenty.
struct Divisor {
  unsigned factor, shift;

  explicit Divisor(unsigned divisor) : shift(0) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<unsigned>(((uint64_t{1} << (31 + shift)) + divisor - 1) / divisor);
  }
  __device__ unsigned quotient(unsigned n) const { return __umulhi(2 * n, factor) >> shift; }
};

// The size of a call's tiles, and how a channel's sums lie.
struct TileSize {
  int rows, columns;
  int pitch;  // from one channel's sums to the next's; behind the sums there is a place for each lane
  int width;  // of the image
  Divisor by_width;

  OPSMITH_HOST_DEVICE int pixels() const { return rows * columns; }
};

// A bin's pixel and gradient in a channel. The pixel is -1 where there is none, which by its row is in no image.
template <class C>
struct PooledBin {
  int32_t pixel;
  C value;
};

// Adds a bin to the sums of a warp's channel, in the order of the lanes.
//
// Lanes of the same pixel find one another in its sum: each turns over a bit of its own there, and sees which bits have
// changed. The first of them adds what the others have, and nobody else writes there. (__match_any_sync takes as long
// as all of this.) Lanes whose pixel is not in the tile do the same, in a place behind the sums.
template <class C>
__device__ void add_bin(const PooledBin<C>& bin, const Tile& tile, const TileSize& size, C* sums) {
  const unsigned pixel = static_cast<unsigned>(bin.pixel), row = size.by_width.quotient(pixel);
  const unsigned y = row - tile.row, x = pixel - tile.column - row * static_cast<unsigned>(size.width);
  const bool adds = y < static_cast<unsigned>(size.rows) && x < static_cast<unsigned>(size.columns);
  const unsigned lane = threadIdx.x % 32, own = 1u << lane;
  C& sum = sums[adds ? y * size.columns + x : size.pixels() + lane];
  unsigned& bits = reinterpret_cast<unsigned&>(sum);  // of a double, some of its bits
  C result = sum + bin.value;
  const unsigned old = bits;
  sync_lanes();  // all have read the sums
  atomicXor(&bits, own);
  sync_lanes();
  const unsigned lanes = bits ^ old;
  const bool is_first = (lanes & (own - 1)) == 0;
  unsigned others = lanes & -own << 1;
#pragma unroll 1
  while (any_lane(others != 0)) {
    const C value = shuffle(bin.value, __ffs(others) - 1);
    if (others != 0) result += value;
    others &= others - 1;
  }
  sync_lanes();  // all have seen the bits
  if (is_first) sum = result;
  sync_lanes();
}

// Adds the listed bins, where a channel's bins lie side by side.
template <class T>
__device__ void add_planes(const Tile& tile, const TileSize& size, const T* gradients, const int32_t* pixels,
                           const BinPlace* list, unsigned bins, compute_t<T>* sums) {
  constexpr int at_once = 2;
  const unsigned lane = threadIdx.x % 32;
  PooledBin<compute_t<T>> next[at_once];
  const auto read = [&](unsigned begin) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const unsigned bin = begin + 32 * k + lane;
      next[k] = {-1, 0};
      if (bin < bins) {
        const BinPlace place = list[bin];
        next[k] = {pixels[place.pixel], static_cast<compute_t<T>>(gradients[place.gradient])};
      }
    }
  };
  read(0);
#pragma unroll 1
  for (unsigned begin = 0; begin < bins; begin += 32 * at_once) {
    PooledBin<compute_t<T>> own[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) own[k] = next[k];
    read(begin + 32 * at_once);  // they are on their way meanwhile
#pragma unroll
    for (int k = 0; k < at_once; ++k) add_bin(own[k], tile, size, sums);
  }
}

// Bins on their way from lanes that have channels to lanes that have bins.
constexpr int staged_bins = 64;
template <class C>
using Staged = PooledBin<C>[gather_channels][staged_bins + 1];

// The same where channels lie side by side: they are read so, and change lanes in shared memory.
template <class T>
__device__ void add_inner(const Tile& tile, const TileSize& size, const T* gradients, const int32_t* pixels,
                          int64_t gradient_stride, int64_t pixel_stride, unsigned channels, const BinPlace* list,
                          unsigned bins, Staged<compute_t<T>>& staged, compute_t<T>* sums) {
  constexpr int at_once = staged_bins / 32;
  const unsigned channel = threadIdx.x % gather_channels, slot = threadIdx.x / gather_channels;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // From the lane itself: what comes by way of lanes is kept, and not made again for each bin (see
  // gpu::keep_pointer()).
  const int64_t gradient_offset = shuffle(channel * gradient_stride, lane);
  const int64_t pixel_offset = shuffle(channel * pixel_stride, lane);
  PooledBin<compute_t<T>> next[at_once];
  const auto read = [&](unsigned begin) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const unsigned bin = begin + 32 * k + slot;
      next[k] = {-1, 0};
      if (channel < channels && bin < bins) {
        const BinPlace place = list[bin];
        next[k] = {pixels[place.pixel + pixel_offset],
                   static_cast<compute_t<T>>(gradients[place.gradient + gradient_offset])};
      }
    }
  };
  read(0);
#pragma unroll 1
  for (unsigned begin = 0; begin < bins; begin += staged_bins) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) staged[channel][32 * k + slot] = next[k];
    __syncthreads();
    PooledBin<compute_t<T>> own[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) own[k] = staged[warp][32 * k + lane];
    __syncthreads();
    read(begin + staged_bins);  // they are on their way meanwhile
#pragma unroll
    for (int k = 0; k < at_once; ++k) add_bin(own[k], tile, size, sums);
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
