// The taps of a filter as the GPU kernels read them.
#pragma once

#include "filtering.h"

namespace opsmith::ops::filters {
namespace {

// g at a tap of an axis that counts from the front, out of the rows of f; without the gain.
struct DeviceTaps {
  View<const float, 2> f;
  bool reversed;

  __device__ float operator()(int64_t row, int64_t column) const {
    return __ldg(&f(row, reversed ? f.size[1] - 1 - column : column));
  }
  // Of a filter of two dimensions both are reversed.
  __device__ float full(int64_t y, int64_t x) const { return (*this)(reversed ? f.size[0] - 1 - y : y, x); }
};

// What a sum begins with: NaN where a tap is, so that outputs which the tap does not meet are NaN, too.
template <class C>
__device__ C start_of(C start, C tap) {
  return tap != tap ? tap : start;
}

}  // namespace
}  // namespace opsmith::ops::filters
