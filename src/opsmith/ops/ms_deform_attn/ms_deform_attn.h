// Where multi-scale deformable attention samples the levels of a pyramid: shared by the kernels for CPUs and GPUs.
//
// Points are computed in the type that sums are made in, by one product and one difference, each rounded by itself, so
// every kernel and the definition find the same pixels.
#pragma once

#include <opsmith/kernel.h>

#include "../_boxes/bilinear.h"
#include "../_boxes/unfused.h"

namespace opsmith::ops::ms_deform_attn {
namespace {

// Which gradients are needed. Kernels go by the outputs instead: those that are not needed have no elements.
struct Needed {
  bool needs_grad_value, needs_grad_sampling_locations, needs_grad_attention_weights;
};

// A level of the pyramid: its size, and where its pixels begin.
struct Level {
  int64_t height, width, start;
};

// A point between four pixels: which ones these are, and how far below and right of the one at the top left it is.
// Corners 0 to 3 are top left, top right, bottom left, bottom right; one that is not there is pixel -1.
template <class C>
struct Sample {
  int64_t pixel[4];
  C below, right;
  bool is_inside;  // else no pixel is there, and nothing has a gradient

  OPSMITH_HOST_DEVICE C share(int corner) const { return bilinear::share(corner, below, right); }
};

// A location times the size of its axis, less half a pixel.
template <class C>
OPSMITH_HOST_DEVICE C place(C location, C size) {
  return unfused::subtract(unfused::product(location, size), C(0.5));
}

// The sample at a location, among `pixels` pixels. Shapes may be anything: sums and products of them wrap around, and
// what is not a pixel is left out.
template <class C>
OPSMITH_HOST_DEVICE Sample<C> locate(C location_x, C location_y, const Level& level, int64_t pixels) {
  Sample<C> sample{{-1, -1, -1, -1}, C(0), C(0), false};
  const C width = static_cast<C>(level.width), height = static_cast<C>(level.height);
  const C x = place(location_x, width), y = place(location_y, height);
  if (!(y > C(-1) && y < height && x > C(-1) && x < width)) return sample;
  sample.is_inside = true;
  const int64_t top = bilinear::floor_of(y), left = bilinear::floor_of(x);
  sample.below = y - static_cast<C>(top);
  sample.right = x - static_cast<C>(left);
  for (int corner = 0; corner < 4; ++corner) {
    const int64_t row = top + corner / 2, column = left + corner % 2;
    if (row < 0 || row >= level.height || column < 0 || column >= level.width) continue;
    const uint64_t index = static_cast<uint64_t>(level.start) +
                           static_cast<uint64_t>(row) * static_cast<uint64_t>(level.width) +
                           static_cast<uint64_t>(column);
    if (index < static_cast<uint64_t>(pixels)) sample.pixel[corner] = static_cast<int64_t>(index);
  }
  return sample;
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
