// roi_pool on a GPU, for many boxes: a block makes the bins that begin in one window of an image.
//
// Boxes cover an image many times over, and reading each box from memory is what a kernel that takes them one by one
// waits for. Here a block copies a window of some channels to shared memory once, and makes those bins whose first
// pixel is in the window's own part; the rest of the window is there for the pixels of bins that reach beyond. What
// reaches even further is left to pool.h.
//
// Four lanes make a bin, of a quarter of the channels each. They find the largest value of each row, which is one
// instruction a value, with the first row that has the largest of these, and then look for the column in that row.
#pragma once

#include "../roi_align/channels.h"
#include "async_copy.h"
#include "lanes.h"
#include "largest.h"
#include "pool.h"
#include "ranges.h"
#include "shared_memory.h"

namespace {

constexpr int window_threads = 1024;
constexpr int window_rows = 54, window_columns = 64;
constexpr int own_rows = 34, own_columns = 40;  // lines of 40 elements begin at multiples of 16 bytes
constexpr int window_batch = 128;               // pieces of boxes are listed until there are as many
constexpr float large_work = 1000;              // pixels of a piece that is taken before others
// Pixels of a bin along an axis, to be in the window wherever it begins.
constexpr int most_of_bin = window_rows - own_rows + 1;
static_assert(most_of_bin <= window_columns - own_columns + 1);

// A pixel of a window is 64 bytes, so that a box's overhead is shared by many channels, and half of the banks.
constexpr int quads = 4;
// Channels of a lane, which are 16 bytes, and of a window.
template <class T>
constexpr int lane_channels = 16 / sizeof(T);
template <class T>
constexpr int window_channels = quads * lane_channels<T>;

template <class T>
struct WindowMemory {
  Vector<T, lane_channels<T>> pixel[window_rows * window_columns][quads];
  static constexpr int room = window_batch - 1 + window_threads;
  BinRange list[room];  // those with much work from its begin on, others from its end
  int large, small, taken;

  __device__ int listed() const { return large + small; }
  __device__ BinRange& entry(int index) { return list[index < large ? index : index - large + room - small]; }
};

// A window of an image: its first pixel, and some channels.
struct Window {
  unsigned image;
  int top, left;
  int64_t channel;
};

// Which bins of a piece begin in a window's own part. Those without pixels may begin behind the image, and what is no
// box has only such: they are the last window's, and the first one's of the first image.
__device__ inline BinRange find_begun(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                                      const Window& window, unsigned index, float& pixels) {
  BinRange range{index, 0, 0, 0, 0};
  const Piece piece(tiling, index);
  Roi roi = pooling.read_roi(boxes, piece.roi);
  if (roi.image < 0) roi.image = 0, roi.y.size = roi.x.size = 1;
  if (roi.image != window.image) return range;
  const auto find = [](const Side& side, int64_t first, int64_t all, int low, int high, uint8_t& begin,
                       uint8_t& count) {
    const auto place = [&](int bin) {
      const int pixel = side.range(first + bin).low;
      return pixel < side.size ? pixel : side.size - 1;
    };
    narrow(
        bins_along(first, all), [&](int bin) { return place(bin) < low; }, [&](int bin) { return place(bin) >= high; },
        begin, count);
  };
  find(roi.y, piece.row, pooling.out_height, window.top, window.top + own_rows, range.row, range.rows);
  if (range.rows > 0) {
    find(roi.x, piece.column, pooling.out_width, window.left, window.left + own_columns, range.column, range.columns);
  }
  pixels = static_cast<float>(range.count()) * roi.y.bin * roi.x.bin;
  return range;
}

// Lists the next pieces that have bins in a window, in any order; returns the first that was not looked at.
template <class T>
__device__ unsigned list_begun(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                               const Window& window, unsigned next, unsigned end, WindowMemory<T>& memory) {
  const unsigned thread = threadIdx.x;
  __syncthreads();  // all are done with the last list
  if (thread == 0) memory.large = memory.small = memory.taken = 0;
  __syncthreads();
  for (int listed = 0; listed < window_batch && next < end; next += window_threads) {
    if (next + thread < end) {
      float pixels = 0;  // of its bins
      const BinRange range = find_begun(boxes, pooling, tiling, window, next + thread, pixels);
      if (range.count() > 0) {
        const bool is_large = pixels >= large_work;
        memory.list[is_large ? atomicAdd(&memory.large, 1) : memory.room - 1 - atomicAdd(&memory.small, 1)] = range;
      }
    }
    __syncthreads();
    listed = memory.listed();
    __syncthreads();
  }
  return next;
}

// Copies some channels of a pixel to shared memory; vectors are always full. Copies of 4 bytes and more are only begun,
// so that all of a window are on their way at once.
template <bool vectors, int width, class T>
__device__ void begin_copy(const T* from, int64_t stride, int count, Vector<T, width>& to) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr bool is_async = vectors || sizeof(T) >= 4;
#else
  constexpr bool is_async = false;
#endif
  if constexpr (is_async) {
    if constexpr (vectors) {
      copy_async<16>(&to, from);
    } else {
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (c < count) copy_async<sizeof(T)>(&to.item[c], from);
        from += stride;
      }
    }
  } else if constexpr (vectors) {
    to = *reinterpret_cast<const Vector<T, width>*>(from);
  } else {
    Vector<T, width> read{};
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (c < count) read.item[c] = *from;
      from += stride;
    }
    to = read;
  }
}

template <bool vectors, int width, class U>
__device__ void write(const U (&from)[width], U* to, int64_t stride, int count) {
  if constexpr (vectors) {
    Vector<U, width> vector;
#pragma unroll
    for (int c = 0; c < width; ++c) vector.item[c] = from[c];
    *reinterpret_cast<Vector<U, width>*>(to) = vector;
  } else {
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (c < count) *to = from[c];
      to += stride;
    }
  }
}

// Copies the pixels of a window that are in the image, of which `count` channels of this lane are; wait_for_copies says
// when they are there.
template <bool vectors, class T>
__device__ void load_window(const View<const T, 4>& features, const Window& window, int quad, int count,
                            WindowMemory<T>& memory) {
  constexpr int width = lane_channels<T>;
  const int x = static_cast<int>(threadIdx.x) / quads % window_columns;
  constexpr int step = window_threads / (quads * window_columns);
  int y = static_cast<int>(threadIdx.x) / (quads * window_columns);
  const T* from = features.data + window.image * features.stride[0] +
                  (window.channel + quad * width) * features.stride[1] + (window.top + y) * features.stride[2] +
                  (window.left + x) * features.stride[3];
  const int64_t below = features.size[2] - window.top;
  const int rows = count == 0 || window.left + x >= features.size[3] ? 0
                   : below < window_rows                             ? static_cast<int>(below)
                                                                     : window_rows;
  constexpr int at_once = vectors ? 4 : 2;  // without vectors a lane has several loads to a pixel
#pragma unroll at_once
  for (; y < rows; y += step) {
    begin_copy<vectors>(from, features.stride[1], count, memory.pixel[y * window_columns + x][quad]);
    from += step * features.stride[2];
  }
}

// The first pixel of a bin that is NaN in a channel; the arguments are those below.
template <int width, class T>
__device__ void find_nan(const Vector<T, width>* pixels, int rows, int columns, int c, int& row, int& column) {
#pragma unroll 1
  for (row = 0; row < rows; ++row) {
#pragma unroll 1
    for (column = 0; column < columns; ++column) {
      const compute_t<T> value = pixels[(row * window_columns + column) * quads].item[c];
      if (value != value) return;
    }
  }
  row = column = 0;
}

// Finds the first of the largest pixels of a bin that has some, channel by channel. `pixels` points to the first one,
// as a lane has it.
template <int width, class T>
__device__ void find_largest(const Vector<T, width>* pixels, int rows, int columns, int (&row)[width],
                             int (&column)[width]) {
  using C = compute_t<T>;
  C most[width];
#pragma unroll
  for (int c = 0; c < width; ++c) most[c] = -static_cast<C>(INFINITY), row[c] = 0;
  const Vector<T, width>* line = pixels;
#pragma unroll 1
  for (int v = 0; v < rows; ++v) {
    Vector<T, width> across = line[0];
#pragma unroll 4
    for (int u = 1; u < columns; ++u) across = largest(across, line[u * quads]);
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const C value = across.item[c];
      if (value > most[c]) row[c] = v;
      most[c] = largest(most[c], value);
    }
    line += window_columns * quads;
  }
  // From the last column to the first, which stays.
  const T* place[width];
#pragma unroll
  for (int c = 0; c < width; ++c) {
    column[c] = 0;
    place[c] = &pixels[(row[c] * window_columns + columns - 1) * quads].item[c];
  }
#pragma unroll 1
  for (int u = columns - 1; u >= 0; --u) {
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (static_cast<C>(*place[c]) == most[c]) column[c] = u;
      place[c] -= quads * width;
    }
  }
  bool has_nan = false;
#pragma unroll
  for (int c = 0; c < width; ++c) has_nan = has_nan || most[c] != most[c];
  if (has_nan) {
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (most[c] != most[c]) find_nan(pixels, rows, columns, c, row[c], column[c]);
    }
  }
}

// Some bins of a box along both axes: lane i has the pixels of row i, and lane 8 + j those of column j.
struct LaneRanges {
  Range own;

  __device__ LaneRanges(const Roi& roi, const RangeBins& bins, int lane) {
    const bool is_row = lane < piece_bins;
    const int64_t index =
        is_row ? bins.piece.row + bins.range.row + lane : bins.piece.column + bins.range.column + lane % piece_bins;
    own = (is_row ? roi.y : roi.x).range(index);
  }
  __device__ Range row(int i) const { return {value_of(own.low, i), value_of(own.high, i)}; }
  __device__ Range column(int j) const { return row(piece_bins + j); }
};

// Makes the listed bins: a warp takes the next piece, eight bins at a time.
template <bool vectors, class T>
__device__ void make_bins(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                          const Window& window, int count, WindowMemory<T>& memory, const View<T, 4>& out,
                          const View<int32_t, 4>& argmax) {
  using C = compute_t<T>;
  constexpr int width = lane_channels<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane % quads;
  const int64_t channel = window.channel + quad * width;
#pragma unroll 1
  for (;;) {
    const int taken = value_of(lane == 0 ? atomicAdd(&memory.taken, 1) : 0, 0);
    if (taken >= memory.listed()) break;
    const RangeBins bins(tiling, memory.entry(taken));
    const LaneRanges ranges(pooling.read_roi(boxes, bins.piece.roi), bins, lane);
    const int64_t first_row = bins.piece.row + bins.range.row, first_column = bins.piece.column + bins.range.column;
    T* const elements = &out(bins.piece.roi, channel, first_row, first_column);
    int32_t* const places = &argmax(bins.piece.roi, channel, first_row, first_column);
#pragma unroll 1
    for (int next = 0; next < bins.range.count(); next += 32 / quads) {
      const int bin = next + lane / quads, i = bins.row(bin), j = bins.column(bin, i);
      const Range y = ranges.row(i), x = ranges.column(j);
      if (count == 0 || bin >= bins.range.count() || !is_small(y, x, most_of_bin)) continue;
      Vector<T, width> element;
      int32_t place[width];
#pragma unroll
      for (int c = 0; c < width; ++c) element.item[c] = static_cast<T>(C{0}), place[c] = -1;
      if (y.low < y.high && x.low < x.high) {
        const auto* const pixels = &memory.pixel[(y.low - window.top) * window_columns + x.low - window.left][quad];
        int row[width], column[width];
        find_largest(pixels, y.high - y.low, x.high - x.low, row, column);
        const int width_of_image = static_cast<int>(pooling.width), first = y.low * width_of_image + x.low;
#pragma unroll
        for (int c = 0; c < width; ++c) {
          element.item[c] = pixels[(row[c] * window_columns + column[c]) * quads].item[c];
          place[c] = first + row[c] * width_of_image + column[c];
        }
      }
      write<vectors>(element.item, elements + i * out.stride[2] + j * out.stride[3], out.stride[1], count);
      write<vectors>(place, places + i * argmax.stride[2] + j * argmax.stride[3], argmax.stride[1], count);
    }
  }
}

// The grid's z shares out the boxes.
template <bool vectors, class T>
__global__ void __launch_bounds__(window_threads)
    pool_windows(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, Tiling tiling, View<T, 4> out,
                 View<int32_t, 4> argmax) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<WindowMemory<T>*>(bytes);
  const int quad = threadIdx.x % quads;
  const unsigned share = (tiling.pieces + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * share;
  const unsigned end = begin + share < tiling.pieces ? begin + share : tiling.pieces;
  if (begin >= end) return;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Window window{image, static_cast<int>(place / tiling.across) * own_rows,
                          static_cast<int>(place % tiling.across) * own_columns, int64_t{chunk} * window_channels<T>};
      const int64_t left = out.size[1] - window.channel - quad * lane_channels<T>;
      const int count = left < 0 ? 0 : left < lane_channels<T> ? static_cast<int>(left) : lane_channels<T>;
      __syncthreads();  // all are done with the last window
      load_window<vectors>(features, window, quad, count, memory);
#pragma unroll 1
      for (unsigned next = begin; next < end;) {
        next = list_begun(boxes, pooling, tiling, window, next, end, memory);
        wait_for_copies();
        __syncthreads();
        make_bins<vectors>(boxes, pooling, tiling, window, count, memory, out, argmax);
      }
    }
  }
}

// Makes the bins of up to `most_of_bin` pixels along both axes, and returns whether it has: a call with few boxes,
// which do not meet in windows, and a GPU with less shared memory are for pool.h alone.
template <bool vectors, class T>
bool launch_windows(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                    const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  constexpr int bytes = sizeof(WindowMemory<T>);
  if (features.numel() == 0 || most_shared_memory() < bytes) return false;
  const Tiling tiling = tile_images("roi_pool", features, out, own_rows, own_columns, window_channels<T>);
  const int64_t windows = tiling.parts / tiling.chunks * pooling.images;
  if (out.size[0] < windows) return false;
  dim3 grid = grid_of(tiling, pooling.images);
  // Where there are few windows, several blocks take the same one for some of the boxes each.
  const int64_t blocks = int64_t{grid.x} * grid.y, batches = tiling.pieces / window_batch;
  grid.z = static_cast<unsigned>(blocks >= 256 || batches < 2 ? 1 : 256 / blocks < batches ? 256 / blocks : batches);
  const auto kernel = pool_windows<vectors, T>;
  allow_shared_memory(kernel, bytes);
  kernel<<<grid, window_threads, bytes, stream>>>(features, boxes, pooling, tiling, out, argmax);
  return true;
}

}  // namespace
