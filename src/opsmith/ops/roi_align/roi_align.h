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

namespace {

constexpr int64_t most_samples = 1024;         // sampling_ratio
constexpr float farthest = 1024.0f * 1024.0f;  // from here on, points in float32 are more than 1/8 pixel off

// A product that is rounded by itself: in double it is exact.
OPSMITH_HOST_DEVICE float product(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}

// One axis of a box, in pixels of the features.
struct Side {
  float start, bin;  // where the box begins, and the length of a bin
  int64_t samples;   // sampling points in a bin; none where the length is not above 0 and decides about them
  int64_t size;      // of the image

  // The first sampling point of a bin to look at: those before are outside of the image.
  OPSMITH_HOST_DEVICE int64_t first_sample(float begin) const {
    if (samples <= most_to_look_at()) return 0;
    // Here a bin is longer than two pixels, and points are at least half a pixel apart. The 3 are for rounding.
    const double before = floor((-1.0 - begin) * static_cast<double>(samples) / bin - 0.5) - 3;
    return before > 0 ? static_cast<int64_t>(before) : 0;
  }
  OPSMITH_HOST_DEVICE int64_t most_to_look_at() const { return samples <= most_samples ? most_samples : 2 * size + 12; }

  // Calls f(pixel, weight) for the one or two pixels next to each sampling point of a bin.
  template <class F>
  OPSMITH_HOST_DEVICE void for_each(int64_t index, F&& f) const {
    const float begin = start + product(static_cast<float>(index), bin);
    const int64_t first = first_sample(begin), most = most_to_look_at();
    for (int64_t sample = first; sample < samples && sample < first + most; ++sample) {
      const float within = product(static_cast<float>(sample) + 0.5f, bin) / static_cast<float>(samples);
      float point = begin + within;
      if (!(point >= -1.0f && point <= static_cast<float>(size)) || size == 0) continue;
      if (point < 0) point = 0;
      const int64_t low = static_cast<int64_t>(point);
      if (low >= size - 1) {
        f(size - 1, 1.0f);
        continue;
      }
      const float above = point - static_cast<float>(low);
      f(low, 1.0f - above);
      if (above > 0) f(low + 1, above);
    }
  }
};

// What is the same for all boxes of a call.
struct Pooling {
  int64_t images, height, width, out_height, out_width;
  float scale;
  int64_t sampling_ratio;
  bool aligned;

  OPSMITH_HOST_DEVICE Side side(float from, float to, int64_t size, int64_t bins) const {
    float length = to - from;
    if (!aligned && !(length >= 1.0f)) length = 1.0f;
    const float bin = length / static_cast<float>(bins);
    return {from, bin, sampling_ratio > 0 ? sampling_ratio : static_cast<int64_t>(ceilf(bin)), size};
  }
};

// A box: its image, or -1 where there is nothing to pool, and its two sides.
struct Roi {
  int64_t image;
  Side y, x;
};

OPSMITH_HOST_DEVICE Roi read_roi(const opsmith::View<const float, 2>& boxes, int64_t k, const Pooling& pooling) {
  const float index = truncf(boxes(k, 0));
  float edge[4];
  bool good = index >= 0.0f && index < static_cast<float>(pooling.images);
  for (int i = 0; i < 4; ++i) {
    edge[i] = product(boxes(k, i + 1), pooling.scale) - (pooling.aligned ? 0.5f : 0.0f);
    good = good && edge[i] >= -farthest && edge[i] <= farthest;  // false for NaN
  }
  if (!good) return {-1, {}, {}};
  return {static_cast<int64_t>(index), pooling.side(edge[1], edge[3], pooling.height, pooling.out_height),
          pooling.side(edge[0], edge[2], pooling.width, pooling.out_width)};
}

inline Pooling read_arguments(int64_t images, int64_t height, int64_t width, int64_t out_height, int64_t out_width,
                              double spatial_scale, int64_t sampling_ratio, bool aligned) {
  if (sampling_ratio > most_samples) {
    opsmith::fail("sampling_ratio can be up to ", most_samples, "; found ", sampling_ratio);
  }
  return {images, height, width, out_height, out_width, static_cast<float>(spatial_scale), sampling_ratio, aligned};
}

}  // namespace
