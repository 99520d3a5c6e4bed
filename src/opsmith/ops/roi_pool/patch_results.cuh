// Results that are made bin by bin and lie channel by channel in memory: they are put in order in shared memory.
#pragma once

#include "patch.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::write_vector;

constexpr int patch_results = 56;  // bins at once: those of a box of 7 x 7, or four rows of 14

template <class U, int channels>
struct StagedResults {
  alignas(16) U item[channels * (patch_results + 1)];
};

// Whether the results of a box and some of its channels lie side by side, with `channels` in a patch, and can be
// written as vectors.
template <class U>
bool are_flat(const View<U, 4>& results, int64_t channels) {
  constexpr int wide = 16 / sizeof(U);
  const int64_t bins = results.size[2] * results.size[3];
  return bins <= patch_results && results.is_contiguous() && results.size[1] * bins % wide == 0 &&
         channels * bins % wide == 0 && results.size[1] % channels * bins % wide == 0 && is_aligned(results.data, 16);
}

// Writes some rows of bins of `count` channels, whose elements are `pitch` apart from channel to channel. With `flat`
// these are all bins of a box, and lie as they do in memory.
template <class U>
__device__ void write_results(const U* staged, int pitch, bool flat, int count, int rows, int columns, U* to,
                              int64_t beside, int64_t down, int64_t across) {
  const int thread = static_cast<int>(threadIdx.x), bins = rows * columns;
  if (flat) {
    constexpr int wide = 16 / sizeof(U);
#pragma unroll 1
    for (int at = thread * wide; at < count * bins; at += patch_threads * wide) {
      write_vector(*reinterpret_cast<const Vector<U, wide>*>(staged + at), to + at);
    }
    return;
  }
  const Quotients channel_of(bins), row_of(columns);
#pragma unroll 1
  for (int at = thread; at < count * bins; at += patch_threads) {
    const int channel = channel_of.of(at), bin = at - channel * bins, i = row_of.of(bin), j = bin - i * columns;
    to[channel * beside + i * down + j * across] = staged[channel * pitch + bin];
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
