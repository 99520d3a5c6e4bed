// The GPU kernels for the filters that networks use: both axes in one kernel, with all that is between in registers.
//
// A thread makes a band of rows of a few adjacent columns and walks down the rows of samples, of which it reads each
// once. Upsampling, it keeps the rows that an output is made of; else it keeps the sums of the outputs that a row takes
// part in. Rows of a separable filter are filtered along x as they are read. Nothing is shared between threads, so
// there is no shared memory and no barrier: what its neighbours' columns have in common comes out of the L1 cache.
#pragma once

#include "../_filters/columns.cuh"

namespace opsmith::ops::upfirdn2d {
namespace {

using filters::Access, filters::add_along_x, filters::Columns, filters::DeviceTaps, filters::fill, filters::Filtering,
    filters::read_weights, filters::SampleRows, filters::store_row;

constexpr int band_threads = 128;

// How the bands of a call lie; all sizes are below 2^30.
struct Bands {
  unsigned threads;             // all of the call
  int units, count, steps;      // threads along x, bands along y, and a band's steps, each of `Up` rows of outputs
  int shift_y;                  // bands along y begin this much before a multiple of their height, see `later`
  int first_row, first_column;  // the first sample of the first band
  // Where the first phase along x takes the first tap, the samples of the second begin one later. Else it takes the
  // second tap, and both have the same samples. Along y bands begin where the latter is so.
  bool later;
};

// What one thread makes.
template <class F, class T, Access access>
class Band {
  using C = Columns<F, T, access>;
  static constexpr int turn = F::turn;
  static_assert(turn * F::Down % C::ahead == 0);

 public:
  // From the row of outputs number `step` times Up and from `column` on.
  __device__ Band(const T* plane, const View<const T, 4>& x, const DeviceTaps& taps, const Filtering& filtering,
                  T* made, const View<T, 4>& out, const Bands& bands, int step, int column)
      : later_(C::vector_loads || bands.later),
        rows_(plane, x, bands.first_row + step * F::Down, bands.first_column + column / F::Up * F::Down - C::offset),
        made_(made),
        y_(step * F::Up - bands.shift_y),
        height_(static_cast<int>(out.size[2])),
        width_(static_cast<int>(out.size[3]) - column),
        at_(y_ * out.stride[2] + column),
        stride_(out.stride[2]) {
    read_weights<F>(taps, filtering.gain, false, later_, weights_);
    const int left = (height_ + bands.shift_y + F::Up - 1) / F::Up - step;
    steps_ = (left < bands.steps ? left : bands.steps) + turn - 1;
#pragma unroll
    for (auto& row : next_) rows_.read(row);
  }

  // A step takes one row of samples, and makes the Up rows of outputs that end with it.
  __device__ void upsample() {
    float kept[turn][F::Separable ? C::outputs : C::needed];
    for (int step = 0; step < steps_; step += turn) {
#pragma unroll
      for (int k = 0; k < turn; ++k) {
        if constexpr (F::Separable) {
          float samples[C::needed];
          take_row(k, samples);
          fill(kept[k], 0);
          add_along_x<F, C>(weights_ + F::Taps, samples, later_, kept[k]);
        } else {
          take_row(k, kept[k]);
        }
        if (step + k < turn - 1) continue;
#pragma unroll
        for (int q = 0; q < F::Up; ++q) {
          float sums[C::outputs];
          fill(sums, 0);
#pragma unroll
          for (int i = 0; i < turn; ++i) add_row(i * F::Up + q, kept[(k + 1 + i) % turn], sums);
          finish_row(sums);
        }
      }
    }
  }

  // A step takes Down rows of samples, which begin one row of outputs and end another.
  __device__ void accumulate() {
    float sums[turn][C::outputs];
#pragma unroll
    for (auto& row : sums) fill(row, 0);
    for (int step = 0; step < steps_; step += turn) {
#pragma unroll
      for (int k = 0; k < turn; ++k) {
        fill(sums[k], 0);
#pragma unroll
        for (int d = 0; d < F::Down; ++d) {
          float samples[C::needed];
          take_row(k * F::Down + d, samples);
          if constexpr (F::Separable) {
            float line[C::outputs] = {};
            add_along_x<F, C>(weights_ + F::Taps, samples, later_, line);
#pragma unroll
            for (int i = 0; i < turn; ++i) add_row(i * F::Down + d, line, sums[(k + turn - i) % turn]);
          } else {
#pragma unroll
            for (int i = 0; i < turn; ++i) add_row(i * F::Down + d, samples, sums[(k + turn - i) % turn]);
          }
        }
        if (step + k >= turn - 1) finish_row(sums[(k + 1) % turn]);
      }
    }
  }

 private:
  // While a row is worked on the next ones are on their way.
  __device__ void take_row(int number, float (&samples)[C::needed]) {
    rows_.unpack(next_[number % C::ahead], samples);
    rows_.read(next_[number % C::ahead]);
  }

  // What tap number `tap` along y makes of a row: of its sums along x, or of samples.
  template <int n>
  __device__ void add_row(int tap, const float (&row)[n], float (&sums)[C::outputs]) const {
    if constexpr (F::Separable) {
#pragma unroll
      for (int o = 0; o < C::outputs; ++o) sums[o] += weights_[tap] * row[o];
    } else {
      add_along_x<F, C>(weights_ + tap * F::Taps, row, later_, sums);
    }
  }

  __device__ void finish_row(const float (&sums)[C::outputs]) {
    if (y_ >= 0 && y_ < height_) store_row<C>(made_ + at_, width_, sums);
    at_ += stride_;
    ++y_;
  }

  float weights_[F::weights];
  bool later_;
  SampleRows<C, T> rows_;
  typename SampleRows<C, T>::Row next_[C::ahead];
  T* made_;
  int y_, height_, width_, steps_;
  int64_t at_, stride_;
};

template <class F, class T, Access access>
__global__ void __launch_bounds__(band_threads)
    filter_bands(View<const T, 4> x, DeviceTaps taps, Filtering filtering, View<T, 4> out, Bands bands) {
  const unsigned thread = blockIdx.x * static_cast<unsigned>(band_threads) + threadIdx.x;
  if (thread >= bands.threads) return;
  const unsigned units = static_cast<unsigned>(bands.units), count = static_cast<unsigned>(bands.count);
  const int column = static_cast<int>(thread % units) * Columns<F, T, access>::outputs;
  const int step = static_cast<int>(thread / units % count) * bands.steps;
  const unsigned plane = thread / units / count, channels = static_cast<unsigned>(out.size[1]);
  const auto plane_of = [&](const auto& view) {
    return view.data + plane / channels * view.stride[0] + plane % channels * view.stride[1];
  };
  Band<F, T, access> band(plane_of(x), x, taps, filtering, plane_of(out), out, bands, step, column);
  if constexpr (F::Up > 1) {
    band.upsample();
  } else {
    band.accumulate();
  }
}

// Launches a kernel for a call if its rows and the place of its first sample suit the columns.
template <class F, Access access, class T>
bool try_bands(const View<const T, 4>& x, const DeviceTaps& taps, const Filtering& filtering, const View<T, 4>& out,
               Stream stream) {
  using C = Columns<F, T, access>;
  Bands bands{};
  bands.later = filtering.x.first_tap(0) == 0;
  bands.shift_y = F::Up > 1 && filtering.y.first_tap(0) == 0 ? 1 : 0;
  bands.first_row = static_cast<int>(filtering.y.first_input(-bands.shift_y));
  bands.first_column = static_cast<int>(filtering.x.first_input(0));
  const auto rows_are_multiples = [](const auto& view, int n) {
    return view.size[3] % n == 0 && view.stride[0] % n == 0 && view.stride[1] % n == 0 && view.stride[2] % n == 0 &&
           is_aligned(view.data, n * static_cast<int>(sizeof(T)));
  };
  const bool loads_fit = bands.later && (bands.first_column - F::First) % C::own == 0 && rows_are_multiples(x, C::own);
  if ((C::vector_loads && !loads_fit) || (C::vector_stores && !rows_are_multiples(out, C::outputs))) return false;
  const int64_t planes = out.size[0] * out.size[1];
  const int64_t all_steps = (out.size[2] + bands.shift_y + F::Up - 1) / F::Up;
  const int64_t units = (out.size[3] + C::outputs - 1) / C::outputs;
  // Where bands meet, the rows of a turn are read and filtered twice, so they are long. But short ones keep what runs
  // at the same time close together in memory, which pays where most of it is written, 16 bytes at once. Some hundred
  // thousand threads keep a GPU busy, which comes first.
  constexpr int64_t most_turns = C::vector_stores && F::Up > 1 ? 2 : 8, enough_threads = 1 << 18;
  int64_t turns = most_turns, count;
  do {
    bands.steps = static_cast<int>(turns * F::turn + 1);
    count = (all_steps + bands.steps - 1) / bands.steps;
    turns /= 2;
  } while (planes * units * count < enough_threads && turns > 0);
  constexpr int64_t most_threads = (int64_t{1} << 31) - band_threads;
  if (units * count > most_threads / planes) return false;
  bands.units = static_cast<int>(units);
  bands.count = static_cast<int>(count);
  bands.threads = static_cast<unsigned>(planes * units * count);
  filter_bands<F, T, access>
      <<<(bands.threads + band_threads - 1) / band_threads, band_threads, 0, stream>>>(x, taps, filtering, out, bands);
  return true;
}

}  // namespace
}  // namespace opsmith::ops::upfirdn2d
