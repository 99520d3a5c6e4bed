// The gradient of roi_pool on a GPU: a block makes a tile of some channels of an image, whose sums are in shared
// memory.
//
// A warp has a channel, and adds the gradients of the bins that touch the tile, in their order, to the pixels that were
// the largest. Its lanes take 32 bins at a time. Few of these have the same pixel: such lanes add one after the other.
// So there are no atomics, no two warps write to one sum, and the sums are the same bit for bit each time.
#pragma once

#include "../roi_align/channels.h"
#include "lanes.h"
#include "ranges.h"
#include "shared_memory.h"

namespace {

constexpr int gather_channels = 16;  // of a tile: a warp each
constexpr int gather_threads = 32 * gather_channels;
constexpr int gather_batch = 128;       // pieces of boxes whose bins are looked at
constexpr int listed_bins = 768;        // that are taken at once, at least those of a piece
constexpr int warp_slots = 128;         // where lanes of a warp meet that have the same pixel
constexpr int gather_bytes = 84 << 10;  // of sums, so that a multiprocessor has room for two blocks

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

// The size of a call's tiles, and what pixels are divided by to have their rows.
struct TileSize {
  int rows, columns;
  Divisor by_width;  // of the image

  OPSMITH_HOST_DEVICE int pixels() const { return rows * columns; }
  // From one channel's sums to the next's: odd, so that the same pixel's are in different banks.
  OPSMITH_HOST_DEVICE int pitch() const { return rows * columns | 1; }
};

// Bins' pixels and gradients in each channel, on their way from lanes that have channels to lanes that have bins. The
// odd pitch keeps columns in different banks.
constexpr int staged_bins = 64;
template <class C>
struct Staged {
  int32_t pixel[gather_channels][staged_bins + 1];
  C value[gather_channels][staged_bins + 1];
};

// In shared memory; behind it lie the sums.
template <class C>
struct GatherMemory {
  int64_t gradient[listed_bins], pixel[listed_bins];  // where the bins are read
  Staged<C> staged;
  BinRange range[gather_batch];
  unsigned first[gather_batch];  // the place of a range's first bin in the list of bins
  unsigned before[gather_batch / 32];
  unsigned slots[gather_channels][warp_slots];
  unsigned pieces, bins;  // listed
};

// Which bins of a piece touch a tile.
__device__ inline BinRange find_touching(const Roi& roi, const Pooling& pooling, const Piece& piece, const Tile& tile,
                                         const TileSize& size, unsigned index) {
  BinRange range{index, 0, 0, 0, 0};
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

// Lists the bins of the first of some pieces that touch a tile, in their order, as many as there is room for.
template <class T>
__device__ void list_bins(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                          const Tile& tile, const TileSize& size, const unsigned* pieces, int count,
                          const View<const T, 4>& grad_out, const View<const int32_t, 4>& argmax,
                          GatherMemory<compute_t<T>>& memory) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  if (thread == 0) memory.pieces = memory.bins = 0;
  BinRange own{};
  unsigned all = 0;  // bins of the pieces up to this one
  if (thread < gather_batch) {
    if (thread < count) {
      const Piece piece(tiling, pieces[thread]);
      own = find_touching(pooling.read_roi(boxes, piece.roi), pooling, piece, tile, size, pieces[thread]);
    }
    all = own.count();
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const unsigned other = value_below(all, distance);
      if (lane >= distance) all += other;
    }
    if (lane == 31) memory.before[thread / 32] = all;
  }
  __syncthreads();
  if (thread < count) {
    for (int warp = 0; warp < thread / 32; ++warp) all += memory.before[warp];
    if (all <= listed_bins) {
      memory.range[thread] = own;
      memory.first[thread] = all - own.count();
      atomicMax(&memory.pieces, static_cast<unsigned>(thread) + 1);
      atomicMax(&memory.bins, all);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (unsigned k = thread / 32; k < memory.pieces; k += gather_threads / 32) {
    if (memory.range[k].count() == 0) continue;
    const RangeBins bins(tiling, memory.range[k]);
#pragma unroll 1
    for (int bin = lane; bin < bins.range.count(); bin += 32) {
      const int i = bins.row(bin), j = bins.column(bin, i);
      const int64_t row = bins.piece.row + bins.range.row + i, column = bins.piece.column + bins.range.column + j;
      const unsigned place = memory.first[k] + bin;
      memory.gradient[place] =
          bins.piece.roi * grad_out.stride[0] + row * grad_out.stride[2] + column * grad_out.stride[3];
      memory.pixel[place] = bins.piece.roi * argmax.stride[0] + row * argmax.stride[2] + column * argmax.stride[3];
    }
  }
  __syncthreads();
}

// What a lane adds: of bins that lie 32 apart, as many as are on their way at once. The pixel is -1 where there is
// none.
template <class C, int count>
struct LaneBins {
  int32_t pixel[count];
  C value[count];

  // Adds them in the order of the bins. Lanes with the same pixel leave a bit each in a slot of their warp, and add in
  // turn; other pixels that share the slot wait needlessly. (__match_any_sync would tell without slots, and takes as
  // long as all the rest.)
  __device__ void add(const Pooling& pooling, const Tile& tile, const TileSize& size, C* sums, unsigned* slots) const {
    const unsigned lane_bit = 1u << threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < count; ++k) {
      const unsigned row = size.by_width.quotient(static_cast<unsigned>(pixel[k])), y = row - tile.row;
      const unsigned x = static_cast<unsigned>(pixel[k]) - row * static_cast<unsigned>(pooling.width) - tile.column;
      const bool adds =
          pixel[k] >= 0 && y < static_cast<unsigned>(size.rows) && x < static_cast<unsigned>(size.columns);
      const unsigned place = y * size.columns + x;
      unsigned& slot = slots[place % warp_slots];
      if (adds) atomicOr(&slot, lane_bit);
      meet_lanes();
      const int turn = adds ? __popc(slot & (lane_bit - 1)) : -1;
      const int last = largest_of_lanes(turn);
      meet_lanes();  // all have read the slots
      if (adds) slot = 0;
#pragma unroll 1
      for (int now = 0; now <= last; ++now) {
        if (turn == now) sums[place] += value[k];
        meet_lanes();
      }
    }
  }
};

// Adds the listed bins, where a channel's bins lie side by side.
template <class T>
__device__ void add_planes(const Pooling& pooling, const Tile& tile, const TileSize& size, const T* gradients,
                           const int32_t* pixels, GatherMemory<compute_t<T>>& memory, compute_t<T>* sums) {
  constexpr int at_once = 2;
  const unsigned lane = threadIdx.x % 32, bins = memory.bins;
  LaneBins<compute_t<T>, at_once> next;
  const auto read = [&](unsigned begin) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const unsigned bin = begin + 32 * k + lane;
      const bool is_bin = bin < bins;
      next.pixel[k] = is_bin ? pixels[memory.pixel[bin]] : -1;
      next.value[k] = is_bin ? static_cast<compute_t<T>>(gradients[memory.gradient[bin]]) : 0;
    }
  };
  read(0);
#pragma unroll 1
  for (unsigned begin = 0; begin < bins; begin += 32 * at_once) {
    const LaneBins<compute_t<T>, at_once> own = next;
    read(begin + 32 * at_once);  // they are on their way meanwhile
    own.add(pooling, tile, size, sums, memory.slots[threadIdx.x / 32]);
  }
}

// The same where channels lie side by side: they are read so, and change lanes in shared memory.
template <class T>
__device__ void add_inner(const Pooling& pooling, const Tile& tile, const TileSize& size, const T* gradients,
                          const int32_t* pixels, int64_t pixel_stride, int64_t gradient_stride, bool has_channel,
                          GatherMemory<compute_t<T>>& memory, compute_t<T>* sums) {
  constexpr int at_once = staged_bins / 32;
  const unsigned channel = threadIdx.x % gather_channels, slot = threadIdx.x / gather_channels;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, bins = memory.bins;
  LaneBins<compute_t<T>, at_once> next;
  const auto read = [&](unsigned begin) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const unsigned bin = begin + 32 * k + slot;
      const bool is_bin = has_channel && bin < bins;
      next.pixel[k] = is_bin ? pixels[memory.pixel[bin] + channel * pixel_stride] : -1;
      next.value[k] =
          is_bin ? static_cast<compute_t<T>>(gradients[memory.gradient[bin] + channel * gradient_stride]) : 0;
    }
  };
  read(0);
#pragma unroll 1
  for (unsigned begin = 0; begin < bins; begin += staged_bins) {
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      memory.staged.pixel[channel][32 * k + slot] = next.pixel[k];
      memory.staged.value[channel][32 * k + slot] = next.value[k];
    }
    __syncthreads();
    LaneBins<compute_t<T>, at_once> own;
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      own.pixel[k] = memory.staged.pixel[warp][32 * k + lane];
      own.value[k] = memory.staged.value[warp][32 * k + lane];
    }
    __syncthreads();
    read(begin + staged_bins);  // they are on their way meanwhile
    own.add(pooling, tile, size, sums, memory.slots[threadIdx.x / 32]);
  }
}

// Writes the sums, line by line: 32 threads side by side have pixels side by side, or 16 channels of two pixels.
template <bool inner, class T>
__device__ void write_tile(const Tile& tile, const TileSize& size, int64_t first_channel, const compute_t<T>* sums,
                           const View<T, 4>& grad_features) {
  constexpr int step = inner ? gather_threads / gather_channels : 32;
  const int thread = static_cast<int>(threadIdx.x);
  const int channel = inner ? thread % gather_channels : thread / 32;
  const int first = inner ? thread / gather_channels : thread % 32;
  if (first_channel + channel >= grad_features.size[1]) return;
  const int64_t below = grad_features.size[2] - tile.row, right = grad_features.size[3] - tile.column;
  const int rows = below < size.rows ? static_cast<int>(below) : size.rows;
  const int columns = right < size.columns ? static_cast<int>(right) : size.columns;
  const compute_t<T>* from = sums + channel * size.pitch();
  T* to = &grad_features(tile.image, first_channel + channel, tile.row, tile.column + first);
#pragma unroll 2
  for (int row = 0; row < rows; ++row) {
    T* place = to;
#pragma unroll 1
    for (int column = first; column < columns; column += step) {
      *place = static_cast<T>(from[column]);
      place += step * grad_features.stride[3];
    }
    from += size.columns;
    to += grad_features.stride[2];
  }
}

template <bool inner, class T>
__global__ void __launch_bounds__(gather_threads, 2)
    gather_boxes(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int32_t, 4> argmax, Pooling pooling,
                 Tiling tiling, TileSize size, View<T, 4> grad_features) {
  using C = compute_t<T>;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<GatherMemory<C>*>(bytes);
  C* const sums = reinterpret_cast<C*>(bytes + sizeof(GatherMemory<C>));
  const unsigned thread = threadIdx.x, warp = thread / 32;
  for (unsigned k = thread; k < gather_channels * warp_slots; k += gather_threads) (&memory.slots[0][0])[k] = 0;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Tile tile{image, place / tiling.across * size.rows, place % tiling.across * size.columns};
      const int64_t first_channel = int64_t{chunk} * gather_channels, left = grad_features.size[1] - first_channel;
      const unsigned channels = left < gather_channels ? static_cast<unsigned>(left) : gather_channels;
      const T* const gradients = grad_out.data + first_channel * grad_out.stride[1];
      const int32_t* const pixels = argmax.data + first_channel * argmax.stride[1];
      for (int k = thread; k < size.pitch() * gather_channels; k += gather_threads) sums[k] = 0;
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
      for_each_batch<gather_threads, gather_batch>(tiling.pieces, touches, [&](const unsigned* list, int count) {
#pragma unroll 1
        for (int begin = 0; begin < count; begin += memory.pieces) {
          __syncthreads();  // all are done with the bins before these
          list_bins(boxes, pooling, tiling, tile, size, list + begin, count - begin, grad_out, argmax, memory);
          C* const own = sums + warp * size.pitch();
          if constexpr (inner) {
            add_inner(pooling, tile, size, gradients, pixels, argmax.stride[1], grad_out.stride[1],
                      thread % gather_channels < channels, memory, own);
          } else if (warp < channels) {
            add_planes(pooling, tile, size, gradients + warp * grad_out.stride[1], pixels + warp * argmax.stride[1],
                       memory, own);
          }
        }
        __syncthreads();
      });
      __syncthreads();  // without boxes there was no barrier
      write_tile<inner>(tile, size, first_channel, sums, grad_features);
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
  constexpr int header = sizeof(GatherMemory<C>);
  const int64_t left = most_shared_memory() - header, most = left < gather_bytes ? left : gather_bytes;
  const int64_t chunks = pieces(grad_features.size[1], gather_channels);
  // Tiles of one size, as far as that goes, and of whole warps along x, as they are written. They are smaller where
  // there would be too few to fill a GPU, and where a GPU has less shared memory.
  int64_t most_rows = (inner ? 40 : 20) * 4 / sizeof(C), most_columns = inner ? 32 : 64, down, across;
  for (;;) {
    down = pieces(pooling.height, most_rows), across = pieces(pooling.width, most_columns);
    const int64_t tile = pieces(pooling.height, down) * pieces(pooling.width, across) + 1;
    const bool fits = tile * gather_channels * static_cast<int64_t>(sizeof(C)) <= most;
    if ((fits && down * across * pooling.images * chunks >= 256) || most_rows * most_columns <= 32) break;
    int64_t& longer = most_rows > most_columns ? most_rows : most_columns;
    longer /= 2;
  }
  const int rows = static_cast<int>(pieces(pooling.height, down));
  const int columns = static_cast<int>(pieces(pooling.width, across));
  const TileSize size{rows, columns, Divisor(static_cast<unsigned>(pooling.width))};
  const Tiling tiling = tile_images("roi_pool_backward", grad_features, grad_out, rows, columns, gather_channels);
  const int bytes = header + size.pitch() * gather_channels * static_cast<int>(sizeof(C));
  const auto kernel = gather_boxes<inner, T>;
  allow_shared_memory(kernel, bytes);
  kernel<<<grid_of(tiling, pooling.images), gather_threads, bytes, stream>>>(grad_out, boxes, argmax, pooling, tiling,
                                                                             size, grad_features);
}

}  // namespace
