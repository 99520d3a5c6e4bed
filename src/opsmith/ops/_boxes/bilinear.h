// A point between four pixels: corners 0 to 3 are top left, top right, bottom left and bottom right, and the point lies
// `below` and `right` of the first one, each from 0 to 1.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops {
namespace {

namespace bilinear {

// The whole number below a number that is above -1.
template <class C>
OPSMITH_HOST_DEVICE int64_t floor_of(C value) {
  const int64_t truncated = static_cast<int64_t>(value);
  return static_cast<C>(truncated) > value ? truncated - 1 : truncated;
}

// What a corner weighs.
template <class C>
OPSMITH_HOST_DEVICE C share(int corner, C below, C right) {
  return (corner / 2 == 0 ? C(1) - below : below) * (corner % 2 == 0 ? C(1) - right : right);
}

// The gradient along y and x of a sample whose corners have the values `value`, or of a sum of such samples.
template <class C>
OPSMITH_HOST_DEVICE void slopes(const C value[4], C below, C right, C& along_y, C& along_x) {
  along_y = (C(1) - right) * (value[2] - value[0]) + right * (value[3] - value[1]);
  along_x = (C(1) - below) * (value[1] - value[0]) + below * (value[3] - value[2]);
}

}  // namespace bilinear

}  // namespace
}  // namespace opsmith::ops
