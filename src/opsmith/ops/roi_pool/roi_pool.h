// Which pixels the bins of a box are: shared by roi_pool.cpp and the GPU's kernels.
#pragma once

#include <opsmith/kernel.h>

#include <cmath>

namespace opsmith::ops::roi_pool {
namespace {

constexpr float farthest = 1024.0f * 1024.0f;  // in pixels of the features

// The pixels [low, high) along an axis.
struct Range {
  int32_t low, high;
};

// One axis of a box. Both of its edges, rounded to whole pixels, belong to it.
struct Side {
  float start, bin;  // where the box begins, and the length of a bin
  int32_t size;      // of the image

  // No pixel of a box is more than some 2^22 off.
  OPSMITH_HOST_DEVICE int32_t inside(float pixel) const {
    return pixel < 0 ? 0 : pixel > static_cast<float>(size) ? size : static_cast<int32_t>(pixel);
  }
  // The pixels of a bin; none on an axis of a box that is none.
  OPSMITH_HOST_DEVICE Range range(int64_t index) const {
    const auto first = static_cast<int32_t>(index);  // which a GPU converts faster
    const float low = floorf(static_cast<float>(first) * bin), high = ceilf(static_cast<float>(first + 1) * bin);
    return {inside(low + start), inside(high + start)};
  }
};

// A box: its image, or -1 where it is none, and its two sides.
struct Roi {
  int64_t image;
  Side y, x;
};

// What is the same for all boxes of a call.
struct Pooling {
  int64_t images, height, width, out_height, out_width;
  float scale;

  OPSMITH_HOST_DEVICE static Side side(float from, float to, int64_t size, int64_t bins) {
    const float start = roundf(from), length = fmaxf(roundf(to) - start + 1.0f, 1.0f);
    return {start, length / static_cast<float>(bins), static_cast<int32_t>(size)};
  }

  // One side of what is known to be a box.
  OPSMITH_HOST_DEVICE Side read_side(const View<const float, 2>& boxes, int64_t k, bool is_y) const {
    const float from = boxes(k, is_y ? 2 : 1) * scale, to = boxes(k, is_y ? 4 : 3) * scale;
    return side(from, to, is_y ? height : width, is_y ? out_height : out_width);
  }

  OPSMITH_HOST_DEVICE Roi read_roi(const View<const float, 2>& boxes, int64_t k) const {
    const float index = truncf(boxes(k, 0));
    float edge[4];
    bool good = index >= 0.0f && index < static_cast<float>(images);
    for (int i = 0; i < 4; ++i) {
      edge[i] = boxes(k, i + 1) * scale;
      good = good && edge[i] >= -farthest && edge[i] <= farthest;  // false for NaN
    }
    if (!good) return {-1, {}, {}};
    return {static_cast<int64_t>(index), side(edge[1], edge[3], height, out_height),
            side(edge[0], edge[2], width, out_width)};
  }
};

// What the operators are told, as sized.py declares it.
struct PoolSizes {
  int64_t images, height, width, out_height, out_width;
  double spatial_scale;
};

struct ImageSizes {
  int64_t images, height, width;
  double spatial_scale;
};

inline Pooling read_arguments(const PoolSizes& at) {
  const auto [images, height, width, out_height, out_width, spatial_scale] = at;
  constexpr int64_t most = (int64_t{1} << 31) - 1;  // a bin keeps its pixel in 32 bits
  if (height > most || width > most || (height > 0 && width > most / height))
    fail("an image can have up to ", most, " pixels; found ", height, " x ", width);
  if (out_height > most || out_width > most)
    fail("a box can have up to ", most, " bins along an axis; found ", out_height, " x ", out_width);
  return {images, height, width, out_height, out_width, static_cast<float>(spatial_scale)};
}

// Whether a pixel's value takes the place of the largest so far: a NaN counts as larger than all numbers, and of equal
// ones the first stays.
template <class C>
OPSMITH_HOST_DEVICE bool is_larger(C value, C most) {
  return most == most && !(value <= most);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
