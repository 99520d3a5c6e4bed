// How a bin is made of squares of pixels: a lane makes one, of as many channels as are 16 bytes.
#pragma once

#include "small_bins.cuh"
#include "squares.cuh"

namespace opsmith::ops::roi_pool {
namespace {

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

// What squares of a level are read from, by one lane: its values of an image, and the places in these.
template <bool vectors, class T>
struct LevelOfImage {
  using Table = Squares<vectors, T>;
  const T* values;
  const typename Table::Places* places;
  int down, across;  // from a value to that of the next row and column
  int level, image_width;

  __device__ LevelOfImage(const Table& table, int part, int level, int64_t image, int64_t image_pixels, int image_width,
                          int lane, const T* pixels, const PlaneSteps& plane)
      : places(nullptr), level(level), image_width(image_width) {
    if (level < Table::first_level) {
      values = pixels, down = plane.down, across = plane.across;
      return;
    }
    const int64_t first = image * image_pixels * part_lanes + lane;
    values = reinterpret_cast<const T*>(table.values_of(part, level) + first);
    if (level > 0) places = table.places_of(part, level) + first;
    across = part_lanes * Table::width, down = image_width * across;
  }

  __device__ Vector<T, Table::width> read(int y, int x) const {
    return *reinterpret_cast<const Vector<T, Table::width>*>(values + (y * down + x * across));
  }
  __device__ typename Table::Places read_places(int y, int x) const {
    return level == 0 ? typename Table::Places{} : places[(y * image_width + x) * part_lanes];
  }
  // A place in a square as a pixel of the image.
  __device__ int pixel(int y, int x, int place) const {
    return (y + (place >> level)) * image_width + x + (place & ((1 << level) - 1));
  }
};

// The level of the largest squares that fit into a bin.
__device__ inline int level_of(const Range& y, const Range& x) {
  const int side = min(y.high - y.low, x.high - x.low);
  return side >= 4 ? 2 : side >= 2 ? 1 : 0;
}

// Looks through the squares of a bin that has pixels, four at a time: they are on their way together.
template <bool vectors, class T, class Found>
__device__ void look_through_squares(const LevelOfImage<vectors, T>& from, const Range& y, const Range& x,
                                     Found& found) {
  constexpr int at_once = 4, width = lane_channels<T>;
  const int level = from.level, side = 1 << level;
  const int down = (y.high - y.low + side - 1) >> level, across = (x.high - x.low + side - 1) >> level;
  found.begin(y.low * from.image_width + x.low);
  int top = y.low, left = x.low;
#pragma unroll 1
  for (int count = down * across; count > 0; count -= at_once) {
    int row[at_once], column[at_once];
    Vector<T, width> values[at_once];
    typename Squares<vectors, T>::Places places[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      row[k] = min(top, y.high - side), column[k] = min(left, x.high - side);
      left += side;
      if (left >= x.high) left = x.low, top += side;
      if (k < count) {
        values[k] = from.read(row[k], column[k]);
        if constexpr (Found::has_places) places[k] = from.read_places(row[k], column[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      if (k >= count) break;
      if constexpr (Found::has_places) {
        int pixel[width];
#pragma unroll
        for (int c = 0; c < width; ++c) pixel[c] = from.pixel(row[k], column[k], places[k].item[c]);
        found.take(values[k], pixel);
      } else {
        found.template take<false>(values[k], 0);
      }
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
