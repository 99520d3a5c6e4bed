// What the pixels of an image weigh in the bins of a box, worked out once by a block of a GPU and shared by all
// channels.
#pragma once

#include "../_boxes/parts.cuh"
#include "roi_align.h"

namespace opsmith::ops::roi_align {
namespace {

using boxes::Bins, boxes::most_bins;

constexpr int most_taps =
    512;  // of a part, along an axis: room for boxes of some 500 pixels where bins have a point for each pixel
constexpr int taps_at_once = 4;

// A pixel's place along an axis, in bytes, and its weight.
template <class C>
struct alignas(16) Tap {
  int64_t offset;
  C weight;
};

// The taps of some bins along an axis: those of bin i are count[i] from tap[i * slots] on.
template <class C>
struct AxisTaps {
  Tap<C> tap[most_taps];
  int count[most_bins];
  int slots;       // a multiple of taps_at_once
  bool is_stored;  // else there are too many
};

// In shared memory.
template <class C>
struct BoxTaps {
  AxisTaps<C> y, x;
};

// To be called by all threads of a block. `row` and `column` are how many bytes these are apart.
template <class C>
__device__ void find_taps(const Roi& roi, const Bins& bins, int64_t row, int64_t column, BoxTaps<C>& taps) {
#pragma unroll 1
  for (int index = threadIdx.x; index < bins.rows + bins.columns; index += blockDim.x) {
    const bool is_row = index < bins.rows;
    const Side side = is_row ? roi.y : roi.x;
    AxisTaps<C>& axis = is_row ? taps.y : taps.x;
    const int own = is_row ? index : index - bins.rows;
    const int64_t stride = is_row ? row : column;
    // Points have two pixels each, and lie within the length of a bin: those next to it, and one more for rounding, are
    // all pixels that there can be.
    const float span = fminf(fabsf(side.bin) + 4.0f, 2.0f * most_taps);
    const int most = 2 * side.samples < static_cast<int>(span) ? 2 * side.samples : static_cast<int>(span);
    const int slots = (most + taps_at_once - 1) / taps_at_once * taps_at_once;
    const bool is_stored = slots * (is_row ? bins.rows : bins.columns) <= most_taps;
    if (own == 0) axis.slots = slots, axis.is_stored = is_stored;
    if (!is_stored) continue;
    Tap<C>* const tap = axis.tap + own * slots;
    int count = 0;
    side.for_each(own + (is_row ? bins.row : bins.column), [&](int pixel, float weight) {
      const int64_t offset = pixel * stride;
      // Points follow one another in one direction: an earlier tap of the same pixel is one of the last three.
#pragma unroll 1
      for (int t = count - 1; t >= 0 && t >= count - 3; --t) {
        if (tap[t].offset == offset) {
          tap[t].weight += static_cast<C>(weight);
          return;
        }
      }
      tap[count++] = {offset, static_cast<C>(weight)};
    });
#pragma unroll 1
    for (int t = 0; t < count; ++t) tap[t].weight /= static_cast<C>(side.samples);
    axis.count[own] = count;
  }
  __syncthreads();
}

}  // namespace
}  // namespace opsmith::ops::roi_align
