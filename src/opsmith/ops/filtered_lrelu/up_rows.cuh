// Rows that a thread of walk.cuh upsamples.
#pragma once

#include "samples.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

// Of a filter that upsamples, what a phase takes sample j by is [phase * span + j]; `phase` counts from a first one on.
template <int factor>
OPSMITH_HOST_DEVICE constexpr int up_tap(int i, int first) {
  return factor * (i % span) + factor - 1 - (i / span + first) % factor;
}

// Rows of a thread's columns that a separable filter upsamples. `later_y` and `later` tell how its groups begin.
template <int factor, bool later_y>
class UpRows {
 public:
  static constexpr int taps = span * factor;
  static constexpr int fresh = step / factor;                                // rows of samples that a step takes
  static constexpr int kept = (step - 1 + later_y) / factor + span - fresh;  // and those of the steps before

  // The taps are in shared memory, those along x by columns.
  __device__ UpRows(const float* taps_x, const float* taps_y, bool later)
      : taps_x_(taps_x), taps_y_(taps_y), later_(later) {
#pragma unroll
    for (auto& row : rows_) {
#pragma unroll
      for (float& number : row) number = 0;
    }
  }

  // Filters the step's rows along x; samples begin at the thread's first one.
  __device__ void take(const float* samples, int room) {
    float tap[taps];
    load_floats<4>(taps_x_, tap);
#pragma unroll
    for (int r = 0; r < fresh; ++r) {
      SampleWindow<factor> window;
      window.read(samples + r * room, later_);
#pragma unroll
      for (int c = 0; c < wide; ++c) {
        const int phase = c % factor;
        float sum = tap[phase * span] * window.of(c, 0);
#pragma unroll
        for (int j = 1; j < span; ++j) sum += tap[phase * span + j] * window.of(c, j);
        rows_[kept + r][c] = sum;
      }
    }
  }

  // Row i of the step.
  __device__ void make(int i, float (&numbers)[wide]) const {
    const int phase = (i + later_y) % factor, first = (i + later_y) / factor;
    float tap[span];
    taps_y_.load(phase, tap);
#pragma unroll
    for (int c = 0; c < wide; ++c) {
      numbers[c] = tap[0] * rows_[first][c];
#pragma unroll
      for (int j = 1; j < span; ++j) numbers[c] += tap[j] * rows_[first + j][c];
    }
  }

  // To the next step.
  __device__ void advance() {
#pragma unroll
    for (int r = 0; r < kept; ++r) {
#pragma unroll
      for (int c = 0; c < wide; ++c) rows_[r][c] = rows_[r + fresh][c];
    }
  }

 private:
  const float* taps_x_;
  TapsAlongY<factor> taps_y_;
  bool later_;
  float rows_[kept + fresh][wide];
};

// The same for a full filter, a turn at a time. Rows of samples stay in shared memory, in two halves that take turns.
template <int factor, bool later_y>
class FullUpRows {
 public:
  static constexpr int taps = span * factor;
  static constexpr int fresh = turn / factor, kept = (turn - 1 + later_y) / factor + span - fresh;
  static_assert(kept <= fresh);

  // `taps` is in shared memory, [phase of rows][row of samples][phase of columns][column of samples].
  __device__ FullUpRows(const float* taps, bool later) : taps_(taps), later_(later) {}

  // Makes the turn's rows of samples in the half before and in the turn's own.
  __device__ void make(const float* before, const float* samples, int room_in, float* rows, int room) const {
    constexpr int many = 3;  // rows of a phase at a time, so that each tap is loaded for many products
    static_assert(turn % (many * factor) == 0);
#pragma unroll 1
    for (int part = 0; part < turn / many; ++part) {
      const int begin = part / factor * many * factor + part % factor;  // the first of `many` rows
      const int phase = (begin + later_y) % factor, first = (begin + later_y) / factor;
      const auto from = [&](int row) {
        return row < kept ? before + (row + fresh - kept) * room_in : samples + (row - kept) * room_in;
      };
      float numbers[many][wide] = {};
      SampleWindow<factor> windows[many];  // of the rows that a row of taps meets
#pragma unroll
      for (int n = 0; n < many - 1; ++n) windows[n].read(from(first + n), later_);
#pragma unroll
      for (int j = 0; j < span; ++j) {
        windows[(j + many - 1) % many].read(from(first + j + many - 1), later_);
        float tap[taps];
        load_floats<4>(taps_ + (phase * span + j) * taps, tap);
#pragma unroll
        for (int n = 0; n < many; ++n) {
#pragma unroll
          for (int c = 0; c < wide; ++c) {
#pragma unroll
            for (int k = 0; k < span; ++k) {
              numbers[n][c] += tap[c % factor * span + k] * windows[(j + n) % many].of(c, k);
            }
          }
        }
      }
#pragma unroll
      for (int n = 0; n < many; ++n) {
        const float (&row)[wide] = numbers[n];
        *reinterpret_cast<Quad*>(rows + (begin + n * factor) * room) = {row[0], row[1], row[2], row[3]};
      }
    }
  }

 private:
  const float* taps_;
  bool later_;
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
