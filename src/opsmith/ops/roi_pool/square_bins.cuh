// How a bin is made of squares of pixels: a thread makes one, of one or more vectors of channels.
#pragma once

#include "small_bins.cuh"
#include "squares.cuh"

namespace opsmith::ops::roi_pool {
namespace {

constexpr int squares_at_once = 2;  // on their way together

// The largest squares so far, channel by channel, and the first places where their values are. Squares lie side by side
// and overlap, so of equal values the one whose place comes first need not be in the first square.
template <int width, class T>
struct LargestSquares : LargestPixels<width, T> {
  using Base = LargestPixels<width, T>;

  __device__ void take(const Vector<T, width>& values, const int (&place)[width]) {
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const auto value = static_cast<compute_t<T>>(values.item[c]);
      // Where neither is larger they are equal, or NaN both.
      const bool comes_first = !is_larger(Base::most[c], value) && place[c] < Base::place[c];
      if (is_larger(value, Base::most[c]) || comes_first) Base::most[c] = value, Base::place[c] = place[c];
    }
  }
};

// What squares of a level are read from, by one lane: its values of an image, and the places in these. Without squares
// of this level those are the features' pixels.
template <bool vectors, class T>
struct LevelOfImage {
  using Table = Squares<vectors, T>;
  const T* values;
  const typename Table::Places* places;
  int down, across;  // from a value to that of the next row and column
  int level, image_width;

  // The lane's first entry of the image is `first` in each level, and its pixels begin at `pixels`.
  __device__ LevelOfImage(const Table& table, int level, int first, int image_width, const T* pixels,
                          const PlaneSteps& plane)
      : places(nullptr), level(level), image_width(image_width) {
    if (level == 0 && !Table::has_pixels) {
      values = pixels, down = plane.down, across = plane.across;
      return;
    }
    values = reinterpret_cast<const T*>(&table.value(level, first));
    if (level > 0) places = &table.place(level, first);
    across = part_lanes * Table::width, down = image_width * across;
  }

  // Of the channels that are so many elements behind the lane's.
  __device__ Vector<T, Table::width> read(int y, int x, int behind) const {
    return *reinterpret_cast<const Vector<T, Table::width>*>(values + (y * down + x * across) + behind);
  }
  __device__ typename Table::Places read_places(int y, int x, int behind) const {
    if (level == 0) return {};
    return (places + (y * image_width + x) * part_lanes)[behind / Table::width];
  }
  // A place in a square as a pixel of the image.
  __device__ int pixel(int y, int x, int place) const {
    return (y + (place >> level)) * image_width + x + (place & ((1 << level) - 1));
  }
};

// The level of the largest squares of the table that fit into a bin.
__device__ inline int level_of(const Range& y, const Range& x) {
  const int side = min(y.high - y.low, x.high - x.low);
  return side >= 4 ? 2 : side >= 2 && least_level == 1 ? 1 : 0;
}

// Looks through the squares of a bin that has pixels, in `vectors_there` vectors of channels, which are `step` elements
// apart. A few squares are on their way together.
template <int step, int count, bool vectors, class T, class Found>
__device__ void look_through_squares(const LevelOfImage<vectors, T>& from, const Range& y, const Range& x,
                                     int vectors_there, Found (&found)[count]) {
  constexpr int at_once = squares_at_once, width = lane_channels<T>;
  const int level = from.level, side = 1 << level;
  const int down = (y.high - y.low + side - 1) >> level, across = (x.high - x.low + side - 1) >> level;
#pragma unroll
  for (Found& one : found) one.begin(y.low * from.image_width + x.low);
  int top = y.low, left = x.low;
#pragma unroll 1
  for (int left_over = down * across; left_over > 0; left_over -= at_once) {
    int row[at_once], column[at_once];
    Vector<T, width> values[at_once][count];
    typename Squares<vectors, T>::Places places[at_once][count];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      row[k] = min(top, y.high - side), column[k] = min(left, x.high - side);
      left += side;
      if (left >= x.high) left = x.low, top += side;
#pragma unroll
      for (int v = 0; v < count; ++v) {
        if (k >= left_over || v >= vectors_there) continue;
        values[k][v] = from.read(row[k], column[k], v * step);
        if constexpr (Found::has_places) places[k][v] = from.read_places(row[k], column[k], v * step);
      }
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      if (k >= left_over) break;
#pragma unroll
      for (int v = 0; v < count; ++v) {
        if constexpr (Found::has_places) {
          int pixel[width];
#pragma unroll
          for (int c = 0; c < width; ++c) pixel[c] = from.pixel(row[k], column[k], places[k][v].item[c]);
          found[v].take(values[k][v], pixel);
        } else {
          found[v].template take<false>(values[k][v], 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
