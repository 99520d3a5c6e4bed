// Where the sampling points of a box lie, and what each pixel along an axis weighs in each bin: shared by roi_align.cpp
// and the GPU's kernels.
//
// The sampling points of a bin are a grid, and bilinear weights are products of one along y and one along x. So the
// mean over a bin is a weighted sum over a rectangle of pixels, whose weights are products too: along each axis they
// are worked out once for a box, and all channels share them. A pixel that several points of a bin fall next to is read
// once.
//
// Points are found in float32 for features of every type, each operation rounded once: on which side of an edge a point
// lies must not depend on the compiler fusing a product into a sum, or the kernels would differ from the definition by
// more than a rounding.
#pragma once

#include <opsmith/kernel.h>

#include <cmath>

#include "../_boxes/unfused.h"

namespace opsmith::ops::roi_align {
namespace {

constexpr int64_t most_samples = 1024;         // sampling_ratio
constexpr float farthest = 1024.0f * 1024.0f;  // from here on, points in float32 are more than 1/8 pixel off

// One axis of a box, in pixels of the features.
struct Side {
  float start, bin;  // where the box begins, and the length of a bin
  int samples;       // sampling points in a bin; none where the length is not above 0 and decides about them
  int size;          // of the image; of one that is larger than any box can be, any size of this kind

  // Finds a sampling point of the bin that begins at `begin`: the pixel before it, and what the next pixel weighs,
  // which is 0 where there is none. False where the point is not next to the image.
  OPSMITH_HOST_DEVICE bool find(float begin, int sample, int& pixel, float& above) const {
    const float within = unfused::product(static_cast<float>(sample) + 0.5f, bin) / static_cast<float>(samples);
    float point = begin + within;
    if (!(point >= -1.0f && point <= static_cast<float>(size)) || size == 0) return false;
    if (point < 0) point = 0;
    pixel = static_cast<int>(point);
    above = point - static_cast<float>(pixel);
    if (pixel >= size - 1) pixel = size - 1, above = 0;
    return true;
  }

  // Calls f(pixel, weight) for the one or two pixels next to each sampling point of a bin, for all points that are next
  // to the pixels from `low` to `high`, and perhaps for some others.
  template <class F>
  OPSMITH_HOST_DEVICE void for_each(int64_t index, int64_t low, int64_t high, F&& f) const {
    const float begin = start + unfused::product(static_cast<float>(index), bin);
    int first = 0, last = samples;
    // However many points a box has, those next to an image are at most two for a pixel where the box's length decides
    // about them. One pixel more and one point more on either side make up for rounding. A few points are sooner looked
    // at than left out.
    if (const float step = bin / static_cast<float>(samples); samples > 8 && step != 0.0f) {
      const float here = (static_cast<float>(low) - 2.0f - begin) / step;
      const float there = (static_cast<float>(high) + 2.0f - begin) / step;
      const float most = static_cast<float>(samples);
      first = static_cast<int>(fminf(fmaxf(fminf(here, there) - 2.0f, 0.0f), most));
      last = static_cast<int>(fmaxf(fminf(fmaxf(here, there) + 2.0f, most), 0.0f));
    }
    for (int sample = first; sample < last; ++sample) {
      // As in find(), which it does not call: with that, channels_last float32 took a GPU 102 us in place of 87.
      const float within = unfused::product(static_cast<float>(sample) + 0.5f, bin) / static_cast<float>(samples);
      float point = begin + within;
      if (!(point >= -1.0f && point <= static_cast<float>(size)) || size == 0) continue;
      if (point < 0) point = 0;
      const int pixel = static_cast<int>(point);
      if (pixel >= size - 1) {
        f(size - 1, 1.0f);
        continue;
      }
      const float above = point - static_cast<float>(pixel);
      f(pixel, 1.0f - above);
      if (above > 0) f(pixel + 1, above);
    }
  }

  // The same for all points next to the image.
  template <class F>
  OPSMITH_HOST_DEVICE void for_each(int64_t index, F&& f) const {
    for_each(index, 0, size - 1, f);
  }

  // Whether the bins [first, end) may have weights in the pixels from `low` to `high` of the image; never false where
  // they have some.
  OPSMITH_HOST_DEVICE bool may_touch(int64_t first, int64_t end, int64_t low, int64_t high) const {
    const float a = start + static_cast<float>(first) * bin, b = start + static_cast<float>(end) * bin;
    // Points from a pixel outside on count as on the edge, and the last ones are next to a pixel behind them.
    return fminf(a, b) - 2.0f <= static_cast<float>(high) && fmaxf(a, b) + 2.0f >= static_cast<float>(low);
  }
};

// What is the same for all boxes of a call.
struct Pooling {
  int64_t images, height, width, out_height, out_width;
  float scale;
  int64_t sampling_ratio;
  bool aligned;
  // Of a level of a pyramid: the areas of its boxes, as they are said, from the first of these to below the second.
  // What compares with nothing sets no limit.
  float least_area = -INFINITY, next_area = NAN;

  OPSMITH_HOST_DEVICE Side side(float from, float to, int64_t size, int64_t bins) const {
    float length = to - from;
    if (!aligned && !(length >= 1.0f)) length = 1.0f;
    const float bin = length / static_cast<float>(bins);
    constexpr int64_t most = int64_t{1} << 24;
    return {from, bin, static_cast<int>(sampling_ratio > 0 ? static_cast<float>(sampling_ratio) : ceilf(bin)),
            static_cast<int>(size < most ? size : most)};
  }
};

// A box: its image, or -1 where there is nothing to pool, and its two sides.
struct Roi {
  int64_t image;
  Side y, x;
};

OPSMITH_HOST_DEVICE float area_of(const View<const float, 2>& boxes, int64_t k) {
  return unfused::product(boxes(k, 3) - boxes(k, 1), boxes(k, 4) - boxes(k, 2));
}

OPSMITH_HOST_DEVICE Roi read_roi(const View<const float, 2>& boxes, int64_t k, const Pooling& pooling) {
  const float index = truncf(boxes(k, 0));
  float edge[4];
  bool good = index >= 0.0f && index < static_cast<float>(pooling.images);
  for (int i = 0; i < 4; ++i) {
    edge[i] = unfused::product(boxes(k, i + 1), pooling.scale) - (pooling.aligned ? 0.5f : 0.0f);
    good = good && edge[i] >= -farthest && edge[i] <= farthest;  // false for NaN
  }
  const float area = area_of(boxes, k);
  if (!good || area < pooling.least_area || area >= pooling.next_area) return {-1, {}, {}};
  return {static_cast<int64_t>(index), pooling.side(edge[1], edge[3], pooling.height, pooling.out_height),
          pooling.side(edge[0], edge[2], pooling.width, pooling.out_width)};
}

// What the operators are told, as sized.py declares it.
struct Sampling {
  int64_t images, height, width, out_height, out_width;
  double spatial_scale;
  int64_t sampling_ratio;
  bool aligned;
};

inline Pooling read_arguments(const Sampling& at) {
  if (at.sampling_ratio > most_samples) {
    fail("sampling_ratio can be up to ", most_samples, "; found ", at.sampling_ratio);
  }
  return {at.images,         at.height, at.width, at.out_height, at.out_width, static_cast<float>(at.spatial_scale),
          at.sampling_ratio, at.aligned};
}

}  // namespace
}  // namespace opsmith::ops::roi_align
