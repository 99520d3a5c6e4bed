// What a thread of walk.cuh downsamples: sums along y and along x, and the outputs that they become.
#pragma once

#include "samples.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

// Sums along y of a thread's columns, for outputs that are not complete.
template <int factor>
class DownRows {
 public:
  static constexpr int fresh = step / factor;  // outputs that a step completes

  __device__ DownRows() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (float& sum : row) sum = 0;
    }
  }

  // Takes row i of the step by the taps i % factor, i % factor + factor, ...
  __device__ void add(int i, const float (&numbers)[wide], const float (&tap)[span]) {
    const int newest = i / factor;
#pragma unroll
    for (int j = 0; j < span; ++j) {
      float (&row)[wide] = sums_[newest + span - 1 - j];
#pragma unroll
      for (int c = 0; c < wide; ++c) {
        row[c] = (i % factor == 0 && j == 0 ? 0.0f : row[c]) + tap[j] * numbers[c];
      }
    }
  }

  // Whether row i completes a row of outputs, which is number i / factor of the step.
  OPSMITH_HOST_DEVICE static constexpr bool completes(int i) { return i % factor == factor - 1; }
  __device__ const float (&row(int i) const)[wide] { return sums_[i / factor]; }

  // To the next step.
  __device__ void advance() {
#pragma unroll
    for (int r = 0; r < span - 1; ++r) {
#pragma unroll
      for (int c = 0; c < wide; ++c) sums_[r][c] = sums_[r + fresh][c];
    }
  }

 private:
  float sums_[span - 1 + fresh][wide];
};

// Sums of a thread's outputs that a full filter makes of all columns' rows of u.
template <int factor>
class FullDownRows {
 public:
  static constexpr int fresh = turn / factor, outputs = wide / factor;

  __device__ FullDownRows() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (float& sum : row) sum = 0;
    }
  }

  // Takes a turn's rows, from the thread's first column on.
  __device__ void add(const float* rows, int room, const float* taps) {
    constexpr int count = span * factor, needed = (wide - factor + count + 3) / 4 * 4;
#pragma unroll 1
    for (int phase = 0; phase < factor; ++phase) {
      // All rows of a phase at once, so that each tap is loaded for many products.
      float window[fresh][needed];
#pragma unroll
      for (int n = 0; n < fresh; ++n) load_floats<4>(rows + (n * factor + phase) * room, window[n]);
#pragma unroll
      for (int j = 0; j < span; ++j) {
        float tap[count];
        load_floats<4>(taps + (phase + j * factor) * count, tap);
#pragma unroll
        for (int n = 0; n < fresh; ++n) {
#pragma unroll
          for (int o = 0; o < outputs; ++o) {
#pragma unroll
            for (int k = 0; k < count; ++k) sums_[n + span - 1 - j][o] += tap[k] * window[n][o * factor + k];
          }
        }
      }
    }
  }

  // Row r of those that the turn completes.
  __device__ void copy(int r, float (&made)[outputs]) const {
#pragma unroll
    for (int o = 0; o < outputs; ++o) made[o] = sums_[r][o];
  }

  // To the next turn.
  __device__ void advance() {
#pragma unroll
    for (int r = 0; r < span + fresh - 1; ++r) {
#pragma unroll
      for (int o = 0; o < outputs; ++o)
        sums_[r][o] = r + fresh < span + fresh - 1 ? sums_[(r + fresh) % (span + fresh - 1)][o] : 0;
    }
  }

 private:
  float sums_[span + fresh - 1][outputs];
};

// Makes the outputs that begin in a thread's columns from complete rows of all columns.
template <int factor>
class AlongX {
 public:
  __device__ AlongX(const float* rows, int room, const float* taps) : rows_(rows), room_(room) {
    load_floats<4>(taps, taps_);
  }

  // Those of row r of the turn.
  __device__ void operator()(int r, float (&sums)[wide / factor]) const {
    float window[(wide - factor + count + 3) / 4 * 4];
    load_floats<4>(rows_ + r * room_, window);
#pragma unroll
    for (int o = 0; o < wide / factor; ++o) {
      sums[o] = taps_[0] * window[o * factor];
#pragma unroll
      for (int k = 1; k < count; ++k) sums[o] += taps_[k] * window[o * factor + k];
    }
  }

 private:
  static constexpr int count = span * factor;
  const float* rows_;
  int room_;
  float taps_[count];
};

// A thread's outputs.
template <int factor>
class Outputs {
 public:
  static constexpr int outputs = wide / factor, rows = turn / factor;

  __device__ Outputs(const WalkCall& call, const StripPlace& place, const Strips& strips, const WalkStart& y,
                     const WalkStart& x)
      : stride_y_(call.out.stride[2]),
        stride_x_(call.out.stride[3]),
        element_(call.element),
        row_(y.output - (span - 1)) {
    const int tile = static_cast<int>(place.at.tile);
    begin_ = tile / strips.across * strips.height;
    height_ = place.is_kept ? min(strips.height, static_cast<int>(call.out.size[2]) - begin_) : 0;
    const int column = x.output + place.unit * outputs, begin = tile % strips.across * strips.width;
    const int end = min(begin + strips.width, static_cast<int>(call.out.size[3]));
    to_ = call.out.plane(place.at) + column * stride_x_ + row_ * stride_y_;
#pragma unroll
    for (int o = 0; o < outputs; ++o) has_[o] = column + o >= begin && column + o < end;
  }

  // Stores a turn's rows of those that are asked for, make(row, outputs).
  template <class Make>
  __device__ void store(const Make& make) {
    if (element_ == Element::float16) {
      store_as<float16>(make);
    } else if (element_ == Element::bfloat16) {
      store_as<bfloat16>(make);
    } else {
      store_as<float>(make);
    }
    row_ += rows;
  }

  float total = 0;

 private:
  template <class T, class Make>
  __device__ void store_as(const Make& make) {
    constexpr int together = std::is_same_v<Make, AlongX<factor>> ? 2 : rows;
#pragma unroll together
    for (int r = 0; r < rows; ++r) {
      float made[outputs];
      make(r, made);
      const bool is_row = static_cast<unsigned>(row_ + r - begin_) < static_cast<unsigned>(height_);
#pragma unroll
      for (int o = 0; o < outputs; ++o) {
        if (is_row && has_[o]) {
          *reinterpret_cast<T*>(to_ + o * stride_x_) = static_cast<T>(made[o]);
          total += made[o];
        }
      }
      to_ += stride_y_;
    }
  }

  unsigned char* to_;
  int64_t stride_y_, stride_x_;
  Element element_;
  int row_, begin_, height_;
  bool has_[outputs];
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
