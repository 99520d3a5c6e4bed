// Samples on their way through shared memory to the threads of walk.cuh.
#pragma once

#include "elements.cuh"
#include "rates.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

static_assert(wide == 4);
using Quad = Vector<float, 4>;

// Some floats of shared memory, by vectors of `together`, to multiples of which they are aligned.
template <int together, int n>
__device__ void load_floats(const float* from, float (&to)[n]) {
  static_assert(n % together == 0);
#pragma unroll
  for (int i = 0; i < n; i += together) {
    const auto some = *reinterpret_cast<const Vector<float, together>*>(from + i);
#pragma unroll
    for (int k = 0; k < together; ++k) to[i + k] = some.item[k];
  }
}

// A filter's taps along y, [phase][j], in registers.
template <int factor>
class TapsAlongY {
 public:
  __device__ explicit TapsAlongY(const float* shared) {
#pragma unroll
    for (int i = 0; i < factor * span; ++i) kept_[i] = shared[i];
  }

  __device__ void load(int phase, float (&taps)[span]) const {
#pragma unroll
    for (int j = 0; j < span; ++j) taps[j] = kept_[phase * span + j];
  }

 private:
  float kept_[factor * span];
};

// Samples of an image on their way into shared memory, some rows at a time. Zeros are outside of it.
template <int factor>
class Samples {
 public:
  static constexpr int rows = turn / factor;
  static constexpr int own = wide / factor, beyond = span;  // of a thread, and of all of a strip
  static constexpr int loads = own + (beyond + least_units - 1) / least_units;
  // Floats of a row for the strips of a block, and where the first of a thread's is.
  OPSMITH_HOST_DEVICE static constexpr int room(int threads) { return threads * own + threads / least_units * beyond; }
  __device__ static int first(const StripPlace& place, int units) {
    return place.strip * (units * own + beyond) + place.unit * own;
  }

  __device__ Samples(const Bytes& x, Element element, const StripPlace& place, int units, int row, int column,
                     float bias)
      : stride_(x.stride[2]),
        step_(units * x.stride[3]),
        element_(element),
        row_(row),
        height_(static_cast<int>(x.size[2])),
        units_(units),
        to_(place.strip * (units * own + beyond) + place.unit),
        bias_(bias) {
    from_ = x.plane(place.at) + row * stride_ + (column + place.unit) * x.stride[3];
#pragma unroll
    for (int k = 0; k < loads; ++k) {
      const int at = column + place.unit + k * units;
      const bool has = place.is_kept && (k < own || place.unit + (k - own) * units < beyond);
      has_ |= has ? 1u << k : 0;
      inside_ |= has && at >= 0 && at < static_cast<int>(x.size[3]) ? 1u << k : 0;
    }
  }

  // Begins to read the next rows.
  __device__ void read() {
    if (element_ == Element::float32) {
      read_as<uint32_t>();
    } else {
      read_as<uint16_t>();
    }
  }

  // Puts them in their places, [rows][room].
  __device__ void put(float* samples, int room) {
    if (element_ == Element::float16) {
      put_as<Element::float16>(samples, room);
    } else if (element_ == Element::bfloat16) {
      put_as<Element::bfloat16>(samples, room);
    } else {
      put_as<Element::float32>(samples, room);
    }
    from_ += rows * stride_;
    row_ += rows;
  }

 private:
  // A bit for each load of a row that is inside.
  __device__ unsigned inside(int r) const {
    return static_cast<unsigned>(row_ + r) < static_cast<unsigned>(height_) ? inside_ : 0;
  }

  template <class Bits>
  __device__ void read_as() {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const unsigned is_inside = inside(r);
      const unsigned char* from = from_ + r * stride_;
#pragma unroll
      for (int k = 0; k < loads; ++k) {
        held_[r][k] = 0;
        if ((is_inside >> k & 1) != 0) held_[r][k] = *reinterpret_cast<const Bits*>(from);
        from += step_;
      }
    }
  }

  template <Element element>
  __device__ void put_as(float* samples, int room) const {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const unsigned is_inside = inside(r);
#pragma unroll
      for (int k = 0; k < loads; ++k) {
        float value = number_of(held_[r][k], element);
        if ((is_inside >> k & 1) != 0) value += bias_;
        if ((has_ >> k & 1) != 0) samples[r * room + to_ + k * units_] = value;
      }
    }
  }

  const unsigned char* from_;
  int64_t stride_, step_;
  Element element_;
  int row_, height_, units_, to_;
  float bias_;
  unsigned has_ = 0, inside_ = 0;
  uint32_t held_[rows][loads];
};

// The samples that a thread's columns are made of, out of one row.
template <int factor>
struct SampleWindow {
  // The last column of a group is of the next one where groups begin later, at the columns' second phase.
  float x[(wide - 1) / factor + span + 1], last[span + wide / factor - 1];

  __device__ void read(const float* samples, bool later) {
    constexpr int together = wide / factor;
    load_floats<together>(samples, x);
#pragma unroll
    for (int j = 0; j < span + wide / factor - 1; ++j) last[j] = later ? x[j + 1] : x[j];
  }

  __device__ float of(int column, int j) const {
    const int first = column / factor;
    return column % factor == factor - 1 ? last[first + j] : x[first + j];
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
