// roi_pool on a GPU, for many boxes: a block makes the bins that begin in one window of an image.
//
// Boxes cover an image many times over, and reading each box from memory is what a kernel that takes them one by one
// waits for. Here a block copies a window of some channels to shared memory once, and makes those bins whose first
// pixel is in the window's own part; the rest of the window is there for the pixels of bins that reach beyond. What
// reaches even further is left to pool.h.
//
// Eight lanes make a bin: two share the channels of a pixel, by four that take every fourth row. They find the largest
// value of each row, which is one instruction a value, and the first row with the largest of these; then each looks for
// the column in that row, of a quarter of its channels.
#pragma once

#include "../roi_align/channels.h"
#include "largest.h"
#include "ranges.h"
#include "shared_memory.h"

namespace {

constexpr int window_threads = 512;
constexpr int window_rows = 56, window_columns = 60;
constexpr int reach = 20;  // of rows and columns beyond a window's own part
constexpr int own_rows = window_rows - reach, own_columns = window_columns - reach;
constexpr int most_of_bin = reach + 1;  // pixels along an axis, to be in the window wherever the bin begins
// One more than a multiple of four, so that four rows of a column, of 32 bytes each, are in different banks.
constexpr int window_pitch = window_columns + 1;
constexpr int window_batch = 128;  // pieces of boxes are listed until there are as many
constexpr int no_row = 0x7fffffff;

// Channels of a lane, which are 16 bytes, and of the two lanes of a pixel.
template <class T>
constexpr int lane_channels = 16 / sizeof(T);
template <class T>
constexpr int window_channels = 2 * lane_channels<T>;

template <class T>
struct WindowMemory {
  Vector<T, lane_channels<T>> pixel[window_rows * window_pitch][2];
  BinRange list[window_batch - 1 + window_threads];
  int listed, taken;
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
                                      const Window& window, unsigned index) {
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
  return range;
}

// Lists the next pieces that have bins in a window, in any order; returns the first that was not looked at.
template <class T>
__device__ unsigned list_begun(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                               const Window& window, unsigned next, unsigned end, WindowMemory<T>& memory) {
  const unsigned thread = threadIdx.x;
  __syncthreads();  // all are done with the last list
  if (thread == 0) memory.listed = memory.taken = 0;
  __syncthreads();
  for (int listed = 0; listed < window_batch && next < end; next += window_threads) {
    if (next + thread < end) {
      const BinRange range = find_begun(boxes, pooling, tiling, window, next + thread);
      if (range.count() > 0) memory.list[atomicAdd(&memory.listed, 1)] = range;
    }
    __syncthreads();
    listed = memory.listed;
    __syncthreads();
  }
  return next;
}

// Some channels of a pixel in memory.
template <int width, bool vectors, class T>
__device__ Vector<T, width> read(const T* from, int64_t stride, int count) {
  if constexpr (vectors) {
    return *reinterpret_cast<const Vector<T, width>*>(from);
  } else {
    Vector<T, width> result{};
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (c < count) result.item[c] = from[c * stride];
    }
    return result;
  }
}

// Copies the pixels of a window that are in the image; `count` channels of this lane are.
template <bool vectors, class T>
__device__ void load_window(const View<const T, 4>& features, const Window& window, int quad, int count,
                            WindowMemory<T>& memory) {
  constexpr int width = lane_channels<T>;
  const T* const corner = features.data + window.image * features.stride[0] +
                          (window.channel + quad * width) * features.stride[1] + window.top * features.stride[2] +
                          window.left * features.stride[3];
  constexpr int at_once = vectors ? 4 : 1;  // without vectors a lane has several loads to a pixel
#pragma unroll at_once
  for (int k = threadIdx.x / 2; k < window_rows * window_columns; k += window_threads / 2) {
    const int y = k / window_columns, x = k % window_columns;
    if (window.top + y < features.size[2] && window.left + x < features.size[3]) {
      memory.pixel[y * window_pitch + x][quad] =
          read<width, vectors>(corner + y * features.stride[2] + x * features.stride[3], features.stride[1], count);
    }
  }
}

// The pixels of a window as a lane reads them, by their places in the image.
template <class T>
struct Pixels {
  const Vector<T, lane_channels<T>>* first;
  int top, left;

  __device__ const Vector<T, lane_channels<T>>& operator()(int y, int x) const {
    return first[((y - top) * window_pitch + x - left) * 2];
  }
};

// The largest values of a bin's rows, and the first rows where they are.
template <int width, class C>
struct RowMaxima {
  C most[width];
  int row[width];

  __device__ void keep(int c, C value, int value_row) {
    if (is_larger(value, most[c]) || (!is_larger(most[c], value) && value_row < row[c])) {
      most[c] = value, row[c] = value_row;
    }
  }

  // Takes every fourth row, from `part` on.
  template <class T>
  __device__ void find(const Pixels<T>& pixels, const Range& y, const Range& x, int part) {
    const bool is_empty = y.low + part >= y.high || x.low >= x.high;
#pragma unroll
    for (int c = 0; c < width; ++c) most[c] = -static_cast<C>(INFINITY), row[c] = is_empty ? no_row : y.low + part;
#pragma unroll 1
    for (int v = y.low + part; v < y.high; v += 4) {
      Vector<T, width> across;
#pragma unroll
      for (int c = 0; c < width; ++c) across.item[c] = static_cast<T>(-static_cast<C>(INFINITY));
#pragma unroll 4
      for (int u = x.low; u < x.high; ++u) across = largest(across, pixels(v, u));
#pragma unroll
      for (int c = 0; c < width; ++c) {
        const C value = across.item[c];
        if (is_larger(value, most[c])) most[c] = value, row[c] = v;
      }
    }
  }

  // Those of another lane join the first `count` of this one's, which sends it the others.
  __device__ void share(int count, bool keeps_last, int distance) {
#pragma unroll
    for (int c = 0; c < width / 2; ++c) {
      if (c >= count) break;
      const C found = exchange(keeps_last ? most[c] : most[count + c], distance);
      const int found_row = exchange(keeps_last ? row[c] : row[count + c], distance);
      if (keeps_last) most[c] = most[count + c], row[c] = row[count + c];
      keep(c, found, found_row);
    }
  }

  // Of all four lanes of a bin; each keeps the first `width / 4`, of which `own_channel` says where they begin.
  __device__ void share(int part) {
    share(width / 2, (part & 2) != 0, 4);
    if constexpr (width >= 4) {
      share(width / 4, (part & 1) != 0, 2);
    } else {  // one channel, of two lanes
      const C found = exchange(most[0], 2);
      keep(0, found, exchange(row[0], 2));
    }
  }
  static __device__ int own_channel(int part) {
    return width >= 4 ? part / 2 * (width / 2) + part % 2 * (width / 4) : part / 2;
  }
};

// The first column of a row where the largest is, and its element there.
template <class T>
__device__ int find_column(const Pixels<T>& pixels, int row, const Range& x, int c, compute_t<T> most, T& element) {
#pragma unroll 1
  for (int u = x.low;; ++u) {
    element = pixels(row, u).item[c];
    const compute_t<T> value = element;
    if (value == most || (value != value && most != most) || u + 1 >= x.high) return u;
  }
}

// Makes the listed bins: a warp takes the next piece, four bins at a time.
template <class T>
__device__ void make_bins(const View<const float, 2>& boxes, const Pooling& pooling, const Tiling& tiling,
                          const Window& window, WindowMemory<T>& memory, const View<T, 4>& out,
                          const View<int32_t, 4>& argmax) {
  using C = compute_t<T>;
  constexpr int width = lane_channels<T>, kept = width < 4 ? 1 : width / 4;
  const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane % 2, part = lane / 2 % 4;
  const Pixels<T> pixels{&memory.pixel[0][quad], window.top, window.left};
  const int64_t first = window.channel + quad * width + RowMaxima<width, C>::own_channel(part);
#pragma unroll 1
  for (;;) {
    const int taken = broadcast(lane == 0 ? atomicAdd(&memory.taken, 1) : 0);
    if (taken >= memory.listed) break;
    const RangeBins bins(tiling, memory.list[taken]);
    const Roi roi = pooling.read_roi(boxes, bins.piece.roi);
#pragma unroll 1
    for (int next = 0; next < bins.range.count(); next += 4) {
      const int bin = next + lane / 8;
      const BoxBin at = bins(bin);
      Range y = roi.y.range(at.row);
      const Range x = roi.x.range(at.column);
      const bool is_made = bin < bins.range.count() && is_small(y, x, most_of_bin);
      if (!is_made) y.high = y.low;
      RowMaxima<width, C> maxima;
      maxima.find(pixels, y, x, part);
      maxima.share(part);
      if (!is_made || (width < 4 && part % 2 != 0)) continue;
#pragma unroll
      for (int c = 0; c < kept; ++c) {
        if (first + c >= out.size[1]) continue;
        T element = static_cast<T>(C{0});
        int32_t pixel = -1;
        if (maxima.row[c] != no_row) {
          const int of_lane = RowMaxima<width, C>::own_channel(part) + c;
          const int column = find_column(pixels, maxima.row[c], x, of_lane, maxima.most[c], element);
          pixel = maxima.row[c] * static_cast<int>(pooling.width) + column;
        }
        out(bins.piece.roi, first + c, at.row, at.column) = element;
        argmax(bins.piece.roi, first + c, at.row, at.column) = pixel;
      }
    }
  }
}

// The grid's z shares out the boxes.
template <bool vectors, class T>
__global__ void __launch_bounds__(window_threads, 2)
    pool_windows(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, Tiling tiling, View<T, 4> out,
                 View<int32_t, 4> argmax) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<WindowMemory<T>*>(bytes);
  const int quad = threadIdx.x % 2;
  const unsigned share = (tiling.pieces + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * share;
  const unsigned end = begin + share < tiling.pieces ? begin + share : tiling.pieces;
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Window window{image, static_cast<int>(place / tiling.across) * own_rows,
                          static_cast<int>(place % tiling.across) * own_columns, int64_t{chunk} * window_channels<T>};
      const int64_t left = out.size[1] - window.channel - quad * lane_channels<T>;
      const int count = left < 0 ? 0 : left < lane_channels<T> ? static_cast<int>(left) : lane_channels<T>;
      bool is_loaded = false;
#pragma unroll 1
      for (unsigned next = begin; next < end;) {
        next = list_begun(boxes, pooling, tiling, window, next, end, memory);
        if (memory.listed == 0) continue;
        if (!is_loaded) {
          load_window<vectors>(features, window, quad, count, memory);
          __syncthreads();
        }
        is_loaded = true;
        make_bins(boxes, pooling, tiling, window, memory, out, argmax);
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
  if (tiling.pieces < windows) return false;
  dim3 grid = grid_of(tiling, pooling.images);
  // Where there are few windows, several blocks take the same one for some of the boxes each.
  const int64_t blocks = int64_t{grid.x} * grid.y, batches = tiling.pieces / window_batch;
  grid.z = static_cast<unsigned>(blocks >= 512 || batches < 2 ? 1 : 512 / blocks < batches ? 512 / blocks : batches);
  const auto kernel = pool_windows<vectors, T>;
  allow_shared_memory(kernel, bytes);
  kernel<<<grid, window_threads, bytes, stream>>>(features, boxes, pooling, tiling, out, argmax);
  return true;
}

}  // namespace
