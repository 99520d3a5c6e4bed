// One pass of a filter over a tile in shared memory, along one axis: how many samples it takes, and its sums.
//
// A pass either upsamples or downsamples. Upsampled by `factor`, the numbers factor * q, ..., factor * q + factor - 1
// counted from the padding on are a group, made from the same samples but one: the first takes the samples from q on by
// the taps 0, factor, ..., the others those from q + 1 on by the taps factor - p, 2 factor - p, ... So a tile is made
// of whole groups, of which the first may begin before it.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::filtered_lrelu {
namespace {

// Upsampling to `targets` numbers, wherever a group begins.
struct UpSizes {
  int factor, taps, targets;
  int groups, sources;

  OPSMITH_HOST_DEVICE constexpr UpSizes(int factor, int taps, int targets)
      : factor(factor),
        taps(taps),
        targets(targets),
        groups((targets + 2 * factor - 2) / factor),
        sources((taps + factor - 1) / factor + groups - (factor == 1 ? 1 : 0)) {}

  OPSMITH_HOST_DEVICE constexpr int made() const { return groups * factor; }
};

// Downsampling to `outputs` numbers.
struct DownSizes {
  int factor, taps, outputs;
  int sources;

  OPSMITH_HOST_DEVICE constexpr DownSizes(int factor, int taps, int outputs)
      : factor(factor), taps(taps), outputs(outputs), sources((outputs - 1) * factor + taps) {}
};

// Columns from one row of a tile to the next: odd, so that threads that go along rows side by side use all banks.
OPSMITH_HOST_DEVICE constexpr int pitch_of(int columns) { return columns | 1; }

// The sums of a group.
template <class C>
struct UpFilter {
  const C* kept;
  int factor, taps;

  OPSMITH_HOST_DEVICE UpFilter(const C* kept, const UpSizes& sizes)
      : kept(kept), factor(sizes.factor), taps(sizes.taps) {}

  template <class Read, class Write>
  OPSMITH_HOST_DEVICE void operator()(C start, const Read& read, const Write& write) const {
    for (int p = 0; p < factor; ++p) {
      C sum = start;
      int j = p > 0 ? 1 : 0;
      for (int k = p > 0 ? factor - p : 0; k < taps; k += factor, ++j) sum += kept[k] * read(j);
      write(p, sum);
    }
  }
};

// The sum of an output.
template <class C>
struct DownFilter {
  const C* kept;
  int taps;

  OPSMITH_HOST_DEVICE DownFilter(const C* kept, const DownSizes& sizes) : kept(kept), taps(sizes.taps) {}

  template <class Read, class Write>
  OPSMITH_HOST_DEVICE void operator()(C start, const Read& read, const Write& write) const {
    C sum = start;
    for (int k = 0; k < taps; ++k) sum += kept[k] * read(k);
    write(0, sum);
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
