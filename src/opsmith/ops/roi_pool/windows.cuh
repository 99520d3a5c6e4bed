// A window of an image in shared memory, and which bins begin in it.
#pragma once

#include "../_boxes/channels.cuh"
#include "../_gpu/async_copy.cuh"
#include "ranges.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Channels, boxes::Piece, boxes::Tiling;

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
  int drawn;  // the block's next turn

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

// Copies some channels of a pixel to shared memory. Vectors are always full, and their copies are only begun, so that
// all of a window are on their way at once. What lies apart is gathered in registers first: single copies would write
// to few of the banks, pixel after pixel.
template <bool vectors, int width, class T>
__device__ void copy_pixel(const T* from, int64_t stride, int count, Vector<T, width>& to) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr bool is_async = vectors;
#else
  constexpr bool is_async = false;
#endif
  if constexpr (is_async) {
    gpu::copy_async(&to, from);
  } else {
    to = Channels<width, vectors>{stride, count}.read(from);
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
#pragma unroll 4  // without vectors a lane has several loads to a pixel
  for (; y < rows; y += step) {
    copy_pixel<vectors>(from, features.stride[1], count, memory.pixel[y * window_columns + x][quad]);
    from += step * features.stride[2];
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
