// One pass of a filter over a tile in shared memory, along one axis: how many samples it takes, and its sums.
//
// A pass either upsamples or downsamples. Upsampled by `factor`, the numbers factor * q, ..., factor * q + factor - 1
// counted from the padding on are a group, made from the same samples but one: the first takes the samples from q on by
// the taps 0, factor, ..., the others those from q + 1 on by the taps factor - p, 2 factor - p, ... So a tile is made
// of whole groups, of which the first may begin before it, and each of a group's sums has its taps at compile time.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::filtered_lrelu {
namespace {

// Upsampling to `targets` numbers, wherever a group begins. Groups are made `run` at a time.
struct UpSizes {
  int factor, taps, targets;
  int groups, sources;

  OPSMITH_HOST_DEVICE constexpr UpSizes(int factor, int taps, int targets, int run)
      : factor(factor),
        taps(taps),
        targets(targets),
        groups((targets + 2 * factor - 2) / factor),
        sources((taps + factor - 1) / factor) {
    groups = (groups + run - 1) / run * run;
    sources += groups - (factor == 1 ? 1 : 0);
  }

  OPSMITH_HOST_DEVICE constexpr int made() const { return groups * factor; }
};

// Downsampling to `outputs` numbers, `run` at a time.
struct DownSizes {
  int factor, taps, outputs;
  int sources;

  OPSMITH_HOST_DEVICE constexpr DownSizes(int factor, int taps, int outputs)
      : factor(factor), taps(taps), outputs(outputs), sources((outputs - 1) * factor + taps) {}
};

// Columns from one row of a tile to the next: odd, so that threads that go along rows side by side use all banks.
OPSMITH_HOST_DEVICE constexpr int pitch_of(int columns) { return columns | 1; }

// The sums of `run` groups, with the factor and the number of taps, a multiple of it, known. Taps stay in registers.
template <class C, int factor, int taps>
struct FixedUp {
  static constexpr int run = 8 / factor;
  static constexpr int inputs = taps / factor;
  C tap[taps];

  OPSMITH_HOST_DEVICE FixedUp(const C* kept, const UpSizes&) {
#pragma unroll
    for (int k = 0; k < taps; ++k) tap[k] = kept[k];
  }

  // write(i, sum) for the numbers i of the groups; read(j) is sample j from the first group on.
  template <class Read, class Write>
  OPSMITH_HOST_DEVICE void operator()(C start, const Read& read, const Write& write) const {
    C window[run + inputs];
#pragma unroll
    for (int j = 0; j < run + inputs; ++j) window[j] = read(j);
#pragma unroll
    for (int q = 0; q < run; ++q) {
#pragma unroll
      for (int p = 0; p < factor; ++p) {
        C sum = start;
#pragma unroll
        for (int j = 0; j < inputs; ++j) {
          sum += tap[(p > 0 ? factor - p : 0) + j * factor] * window[q + (p > 0 ? 1 : 0) + j];
        }
        write(q * factor + p, sum);
      }
    }
  }
};

template <class C, int factor, int taps>
struct FixedDown {
  static constexpr int run = 8 / factor;
  C tap[taps];

  OPSMITH_HOST_DEVICE FixedDown(const C* kept, const DownSizes&) {
#pragma unroll
    for (int k = 0; k < taps; ++k) tap[k] = kept[k];
  }

  template <class Read, class Write>
  OPSMITH_HOST_DEVICE void operator()(C start, const Read& read, const Write& write) const {
    C window[(run - 1) * factor + taps];
#pragma unroll
    for (int j = 0; j < (run - 1) * factor + taps; ++j) window[j] = read(j);
#pragma unroll
    for (int o = 0; o < run; ++o) {
      C sum = start;
#pragma unroll
      for (int k = 0; k < taps; ++k) sum += tap[k] * window[o * factor + k];
      write(o, sum);
    }
  }
};

// The same for any factor and any number of taps, one group at a time.
template <class C>
struct AnyUp {
  static constexpr int run = 1;
  const C* kept;
  int factor, taps;

  OPSMITH_HOST_DEVICE AnyUp(const C* kept, const UpSizes& sizes) : kept(kept), factor(sizes.factor), taps(sizes.taps) {}

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

template <class C>
struct AnyDown {
  static constexpr int run = 1;
  const C* kept;
  int taps;

  OPSMITH_HOST_DEVICE AnyDown(const C* kept, const DownSizes& sizes) : kept(kept), taps(sizes.taps) {}

  template <class Read, class Write>
  OPSMITH_HOST_DEVICE void operator()(C start, const Read& read, const Write& write) const {
    C sum = start;
    for (int k = 0; k < taps; ++k) sum += kept[k] * read(k);
    write(0, sum);
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
