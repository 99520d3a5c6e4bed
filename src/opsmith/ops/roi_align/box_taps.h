// What the pixels of an image weigh in the bins of a box, worked out once by a block of a GPU and shared by all
// channels.
#pragma once

#include "parts.h"
#include "roi_align.h"

namespace {

using namespace opsmith;

constexpr int most_taps =
    512;  // of a part, along an axis: room for boxes of some 500 pixels where bins have a point for each pixel

// A pixel's place along an axis and its weight.
template <class C>
struct Tap {
  int pixel;  // boxes end 2^20 pixels off
  C weight;
};

// The taps of some bins along an axis: those of bin i are tap[i * slots] to tap[(i + 1) * slots - 1], of which those
// that are not needed weigh nothing.
template <class C>
struct AxisTaps {
  Tap<C> tap[most_taps];
  int slots;
  bool is_stored;  // else there are too many
  int pixels;      // from the first to the last that a bin touches, at most
  int weights;     // that the points of a bin give to pixels, at most
};

// In shared memory.
template <class C>
struct BoxTaps {
  AxisTaps<C> y, x;
};

// To be called by all threads of a block, 2 * most_bins or more, each of which is a bin along one axis.
template <class C>
__device__ void find_taps(const Roi& roi, const Bins& bins, BoxTaps<C>& taps) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) taps.y.pixels = taps.y.weights = taps.x.pixels = taps.x.weights = 0;
  __syncthreads();
  const bool is_row = thread < bins.rows, has_bin = thread < bins.rows + bins.columns;
  const Side side = is_row ? roi.y : roi.x;
  const int own = is_row ? thread : thread - bins.rows;
  const int64_t index = own + (is_row ? bins.row : bins.column);
  AxisTaps<C>& axis = is_row ? taps.y : taps.x;
  int low = side.size, high = -1, weights = 0;
  if (has_bin) {
    side.for_each(index, [&](int pixel, float) {
      low = pixel < low ? pixel : low;
      high = pixel > high ? pixel : high;
      ++weights;
    });
    if (weights > 0) {
      atomicMax(&axis.pixels, high - low + 1);
      atomicMax(&axis.weights, weights);
    }
  }
  __syncthreads();
  if (has_bin) {
    // Where points are near one another, the weights that they give to a pixel are added up, and it is read once.
    // Where they are far apart, most pixels between the first and the last weigh nothing.
    const bool merged = axis.pixels <= axis.weights;
    const int needed = merged ? axis.pixels : axis.weights;
    // The pixels of a row are read four at a time.
    const int slots = is_row ? needed : (needed + 3) / 4 * 4;
    const bool is_stored = slots * (is_row ? bins.rows : bins.columns) <= most_taps;
    if (own == 0) axis.slots = slots, axis.is_stored = is_stored;
    if (is_stored) {
      Tap<C>* const tap = axis.tap + own * slots;
      for (int slot = 0; slot < slots; ++slot) tap[slot] = {0, C{0}};
      int next = 0;
      side.for_each(index, [&](int pixel, float weight) {
        Tap<C>& place = tap[merged ? pixel - low : next++];
        place.pixel = pixel;
        place.weight += static_cast<C>(weight);
      });
      for (int slot = 0; slot < slots; ++slot) tap[slot].weight /= static_cast<C>(side.samples);
    }
  }
  __syncthreads();
}

}  // namespace
