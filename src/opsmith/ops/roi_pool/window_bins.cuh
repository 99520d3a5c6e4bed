// How the bins that begin in a window are made: four lanes make one, of a quarter of the channels each.
//
// They find the largest value of each row, which is one instruction a value, with the first row that has the largest of
// these, and then look for the column in that row.
#pragma once

#include <opsmith/lanes.h>

#include "largest.cuh"
#include "pool.cuh"
#include "windows.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::piece_bins, boxes::Tiling;

// The first pixel of a bin that is NaN in a channel; the arguments are those below.
template <int width, class T>
__device__ int find_nan(const Vector<T, width>* pixels, int rows, int columns, int channel) {
#pragma unroll 1
  for (int line = 0; line < rows * window_columns; line += window_columns) {
#pragma unroll 1
    for (int at = line; at < line + columns; ++at) {
      const compute_t<T> value = pixels[at * quads].item[channel];
      if (value != value) return at;
    }
  }
  return 0;
}

// Makes item i what item i + by was, in a circle; `by` is a multiple of `unit`.
template <int unit, int width, class U>
__device__ void rotate(U (&items)[width], int by) {
#pragma unroll
  for (int step = unit; step < width; step *= 2) {
    U old[width];
#pragma unroll
    for (int i = 0; i < width; ++i) old[i] = items[i];
#pragma unroll
    for (int i = 0; i < width; ++i) items[i] = by & step ? old[(i + step) % width] : old[i];
  }
}

// Finds the first of the largest pixels of a bin that has some, channel by channel: what it is, and where it lies in
// the window from the bin's first pixel on, which `pixels` points to as a lane has it.
template <int width, class T>
__device__ Vector<T, width> find_largest(const Vector<T, width>* pixels, int rows, int columns, int (&at)[width]) {
  using C = compute_t<T>;
  C most[width];
#pragma unroll
  for (int c = 0; c < width; ++c) most[c] = -static_cast<C>(INFINITY), at[c] = 0;
  const Vector<T, width>* line = pixels;
#pragma unroll 1
  for (int v = 0; v < rows; ++v) {
    Vector<T, width> across = line[0];
#pragma unroll 4
    for (int u = 1; u < columns; ++u) across = largest(across, line[u * quads]);
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const C value = across.item[c];
      if (value > most[c]) at[c] = v * window_columns;
      most[c] = largest(most[c], value);
    }
    line += window_columns * quads;
  }
  // The channels of a lane are in different rows from here on, and are read one by one. If all lanes began with the
  // same one, they would read from a quarter of the banks; so four bins side by side begin with different ones.
  constexpr int unit = width < 4 ? 1 : width / 4;
  const int turn = static_cast<int>(threadIdx.x) / quads * unit % width;
  rotate<unit>(most, turn);
  rotate<unit>(at, turn);
  // From the last column to the first, which stays.
  const T* place[width];
  int column[width];
#pragma unroll
  for (int c = 0; c < width; ++c) {
    column[c] = 0;
    place[c] = &pixels[(at[c] + columns - 1) * quads].item[(c + turn) % width];
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
  for (int c = 0; c < width; ++c) at[c] += column[c], has_nan = has_nan || most[c] != most[c];
  if (has_nan) {
#pragma unroll
    for (int c = 0; c < width; ++c) {
      if (most[c] != most[c]) at[c] = find_nan(pixels, rows, columns, (c + turn) % width);
    }
  }
  Vector<T, width> found;
#pragma unroll
  for (int c = 0; c < width; ++c) found.item[c] = pixels[at[c] * quads].item[(c + turn) % width];
  rotate<unit>(found.item, width - turn);
  rotate<unit>(at, width - turn);
  return found;
}

// The largest pixels alone.
template <int width, class T>
__device__ Vector<T, width> find_largest_values(const Vector<T, width>* pixels, int rows, int columns) {
  Vector<T, width> most = pixels[0];
#pragma unroll 1
  for (int v = 0; v < rows; ++v) {
#pragma unroll 4
    for (int u = 0; u < columns; ++u) most = largest(most, pixels[(v * window_columns + u) * quads]);
  }
  return most;
}

// Some bins of a box along both axes: lane i has the pixels of row i, and lane 8 + j those of column j.
struct LaneRanges {
  Range own;

  __device__ LaneRanges(const Roi& roi, const RangeBins& bins, int lane) {
    const bool is_row = lane < piece_bins;
    const int64_t index =
        is_row ? bins.piece.row + bins.range.row + lane : bins.piece.column + bins.range.column + lane % piece_bins;
    // Part by part: a choice between the two themselves would put them in memory.
    own = Side{is_row ? roi.y.start : roi.x.start, is_row ? roi.y.bin : roi.x.bin, is_row ? roi.y.size : roi.x.size}
              .range(index);
  }
  __device__ Range row(int i) const { return {shuffle(own.low, i), shuffle(own.high, i)}; }
  __device__ Range column(int j) const { return row(piece_bins + j); }
};

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
    const int taken = shuffle(lane == 0 ? atomicAdd(&memory.taken, 1) : 0, 0);
    if (taken >= memory.listed()) break;
    const RangeBins bins(tiling, memory.entry(taken));
    const LaneRanges ranges(pooling.read_roi(boxes, bins.piece.roi), bins, lane);
    const int64_t first_row = bins.piece.row + bins.range.row, first_column = bins.piece.column + bins.range.column;
    T* const elements = &out(bins.piece.roi, channel, first_row, first_column);
    int32_t* const places = argmax ? &argmax(bins.piece.roi, channel, first_row, first_column) : nullptr;
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
        const int rows = y.high - y.low, columns = x.high - x.low;
        if (argmax) {
          element = find_largest(pixels, rows, columns, place);
          const int width_of_image = static_cast<int>(pooling.width), first = y.low * width_of_image + x.low;
#pragma unroll
          for (int c = 0; c < width; ++c) {
            place[c] = first + place[c] / window_columns * width_of_image + place[c] % window_columns;
          }
        } else {
          element = find_largest_values(pixels, rows, columns);
        }
      }
      write<vectors>(element.item, elements + i * out.stride[2] + j * out.stride[3], out.stride[1], count);
      if (argmax) write<vectors>(place, places + i * argmax.stride[2] + j * argmax.stride[3], argmax.stride[1], count);
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
