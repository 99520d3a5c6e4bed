// How a bin is made from a patch: eight lanes make one, of a vector of channels each.
#pragma once

#include "patch.cuh"
#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

// How the pixels of a row of a bin are read: in `steps` of `at_once` pixels. All bins of a box take as many, which
// keeps the lanes of a warp together.
struct RowSteps {
  static constexpr int most = 4;
  int steps, at_once;

  __device__ explicit RowSteps(int columns)
      : steps((columns + most - 1) / most), at_once(steps == 0 ? 0 : (columns + steps - 1) / steps) {}
};

// The pixels of a bin, of which there are some: `line` is the first one in the patch, as a lane has it, and `pixel` its
// number in the image.
template <int width, class T>
struct BinPixels {
  const Vector<T, width>* line;
  int rows, columns;
  int line_pitch;  // vectors from row to row
  int pixel, image_width;
};

// Finds the largest pixel of a bin, channel by channel, and the first place where it is. Where a bin has fewer columns
// than are read its last one is read again, which changes nothing. Returns whether the result is right: without
// `careful`, which takes two comparisons a pixel, it may not be where there is a NaN.
template <int at_once, bool has_one_step, bool careful, int width, class T>
__device__ bool look_through(BinPixels<width, T> bin, int steps, compute_t<T> (&most)[width], int (&place)[width]) {
  using C = compute_t<T>;
  C doubt[width];  // NaN once there was a NaN or an infinity; a product does not take the unit that compares
#pragma unroll
  for (int c = 0; c < width; ++c) most[c] = -static_cast<C>(INFINITY), place[c] = bin.pixel, doubt[c] = C{0};
#pragma unroll 1
  for (int v = 0; v < bin.rows; ++v) {
#pragma unroll 1
    for (int first = 0; first < (has_one_step ? 1 : steps * at_once); first += at_once) {
      Vector<T, width> values[at_once];
      int column[at_once];
#pragma unroll
      for (int q = 0; q < at_once; ++q) {
        column[q] = min(first + q, bin.columns - 1);
        values[q] = bin.line[column[q] * patch_pitch];
      }
#pragma unroll
      for (int q = 0; q < at_once; ++q) {
#pragma unroll
        for (int c = 0; c < width; ++c) {
          const C value = static_cast<C>(values[q].item[c]);
          if (careful ? is_larger(value, most[c]) : value > most[c]) most[c] = value, place[c] = bin.pixel + column[q];
          if constexpr (!careful) doubt[c] += value * C{0};
        }
      }
    }
    bin.line += bin.line_pitch, bin.pixel += bin.image_width;
  }
  bool is_right = true;
#pragma unroll
  for (int c = 0; c < width; ++c) is_right = is_right && doubt[c] == doubt[c];
  return is_right;
}

template <int width, class T>
__device__ void find_largest(const BinPixels<width, T>& bin, const RowSteps& by, compute_t<T> (&most)[width],
                             int (&place)[width]) {
  const auto look = [&](auto at_once, auto has_one_step) {
    return look_through<decltype(at_once)::value, decltype(has_one_step)::value, false>(bin, by.steps, most, place);
  };
  const auto look_once = [&] {
    switch (by.at_once) {
      case 1:
        return look(std::integral_constant<int, 1>{}, std::true_type{});
      case 2:
        return look(std::integral_constant<int, 2>{}, std::true_type{});
      case 3:
        return look(std::integral_constant<int, 3>{}, std::true_type{});
      default:
        return look(std::integral_constant<int, 4>{}, std::true_type{});
    }
  };
  // Of several steps, each has three pixels or four.
  const bool is_right = by.steps == 1     ? look_once()
                        : by.at_once == 3 ? look(std::integral_constant<int, 3>{}, std::false_type{})
                                          : look(std::integral_constant<int, 4>{}, std::false_type{});
  if (!is_right) look_through<1, false, true>(bin, bin.columns, most, place);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
