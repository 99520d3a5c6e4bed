// What a thread of bands.cuh keeps in registers: rows of samples that are upsampled, and sums of outputs.
#pragma once

#include "../_filters/columns.cuh"
#include "device.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::add_along_x, filters::fill, filters::Known, filters::no_bias, filters::read_weights, filters::SampleRows;

using UpFilter = Known<2, 1, 12, true, 0>;
using DownFilter = Known<1, 2, 12, true, 0>;

// How many columns of u a thread makes, and how many threads a block and blocks a multiprocessor have at most. Backward
// a thread keeps rows of two images, for which it has fewer columns.
template <bool is_backward>
struct Work {
  static constexpr int wide = is_backward ? 4 : 8;
  static constexpr int threads = is_backward ? 160 : 192, blocks = is_backward ? 3 : 2;
};

// Rows can begin anywhere, so samples are loaded one by one; neighbours find them in the L1 cache.
template <int wide>
struct SampleColumns {
  static constexpr int outputs = wide, own = outputs / UpFilter::Up;
  static constexpr int needed = own + UpFilter::inputs;
  static constexpr int vector = 1, offset = 0, loads = needed;
};

template <int wide>
struct OutputColumns {
  static constexpr int outputs = wide / DownFilter::Down;
  static constexpr int needed = wide - DownFilter::Down + DownFilter::Taps;
  // Threads behind this one of whose columns its outputs are made, too.
  static constexpr int margin = (needed - 1) / wide;
};

// How the bands of a call lie. A strip is a band of one plane, as wide as a block can make it.
struct Bands {
  int units, strips;         // threads of a strip, and strips of a block
  int across, count, steps;  // strips along x and along y of a plane, and rows of outputs of each
  int64_t all;               // strips of the call
  bool vector_stores;        // a thread's outputs lie at a multiple of their size

  // With `outputs` columns for a thread, `margin` threads behind them, and blocks of `most_threads`.
  Bands(int64_t height, int64_t width, int64_t planes, int outputs, int margin, int most_threads) {
    const int most_units = most_threads - margin;
    const int64_t all_units = (width + outputs - 1) / outputs;
    across = static_cast<int>((all_units + most_units - 1) / most_units);
    units = static_cast<int>((all_units + across - 1) / across) + margin;
    strips = most_threads / units;
    // Eleven rows more than a band's are upsampled for it, so it is long, unless blocks would be few.
    constexpr int64_t long_steps = 43, short_steps = 13, enough_blocks = 128;
    const auto divide = [&](int64_t by) {
      count = static_cast<int>(by);
      steps = static_cast<int>((height + by - 1) / by);
      all = planes * across * by;
    };
    divide((height + long_steps - 1) / long_steps);
    while (blocks() < enough_blocks && steps > short_steps) divide(count + 1);
  }

  int64_t blocks() const { return (all + strips - 1) / strips; }
  unsigned threads() const { return static_cast<unsigned>(strips * units + 31) / 32 * 32; }
};

// A thread's place.
struct StripPlace {
  int64_t image, channel, tile;
  int row, column;  // of its first output
  bool is_kept;     // whether it stores its outputs

  __device__ StripPlace(const Bands& bands, int64_t channels, int outputs, int margin) {
    const int thread = static_cast<int>(threadIdx.x), unit = thread % bands.units;
    int64_t strip = static_cast<int64_t>(blockIdx.x) * bands.strips + thread / bands.units;
    const bool has_strip = thread / bands.units < bands.strips && strip < bands.all;
    // Threads without a strip do as the last one's, for the barriers' sake.
    if (!has_strip) strip = bands.all - 1;
    const int64_t tiles = int64_t{bands.across} * bands.count, plane = strip / tiles;
    tile = strip % tiles;
    image = plane / channels;
    channel = plane % channels;
    row = static_cast<int>(tile) / bands.across * bands.steps;
    column = (static_cast<int>(tile) % bands.across * (bands.units - margin) + unit) * outputs;
    is_kept = has_strip && unit < bands.units - margin;
  }
};

// Upsampled rows in pairs, one pair after another. `later` tells that the second phase's samples begin one later, along
// either axis.
template <int wide, class T, bool later>
class UpRows {
  using C = SampleColumns<wide>;
  static constexpr int turn = UpFilter::turn;

 public:
  // From the number (row, column) of what `pass` makes on.
  __device__ UpRows(const Pass& pass, const View<const T, 4>& x, const StripPlace& place, int row, int column,
                    float bias)
      : rows_(x.data + place.image * x.stride[0] + place.channel * x.stride[1], x,
              static_cast<int>(pass.filtering.y.first_input(row)) - (later ? 0 : 1),
              static_cast<int>(pass.filtering.x.first_input(column))),
        bias_(bias) {
    read_weights<UpFilter>(pass.taps, pass.filtering.gain, later, later, weights_);
    rows_.read(next_);
    // The rows that the first pair shares with the one before.
#pragma unroll
    for (int k = 0; k < turn; ++k) take_row(k);
  }

  // The weights of the transposed filter: its taps are reversed.
  __device__ void transposed(float (&weights)[DownFilter::weights]) const {
    static_assert(!later);
#pragma unroll
    for (int i = 0; i < DownFilter::weights; ++i) {
      const int k = i % DownFilter::Taps, reversed = DownFilter::Taps - 1 - k;
      weights[i] = weights_[i - k + (reversed ^ 1)];
    }
  }

  // One row of pair n, k being n % turn; the first one first.
  __device__ void make(int k, int phase, float (&numbers)[wide]) {
    if (phase == (later ? 1 : 0)) take_row(k);
    fill(numbers, 0);
#pragma unroll
    for (int i = 0; i < turn; ++i) {
      const auto& row = kept_[(k + i + (later ? phase : 1)) % turn];
#pragma unroll
      for (int o = 0; o < wide; ++o) numbers[o] += weights_[i * UpFilter::Up + phase] * row[o];
    }
  }

 private:
  __device__ void take_row(int k) {
    float samples[C::needed];
    rows_.unpack(next_, samples, bias_);
    rows_.read(next_);
    fill(kept_[k], 0);
    add_along_x<UpFilter, C>(weights_ + UpFilter::Taps, samples, later, kept_[k]);
  }

  float weights_[UpFilter::weights];
  SampleRows<C, T> rows_;
  typename SampleRows<C, T>::Row next_;
  float bias_, kept_[turn][wide];
};

// The rows that are downsampled: forward what is made of u, backward the gradient by u. There, u is upsampled from
// where its filter is not `later`.
template <class T, bool is_backward, bool later>
class NumberRows {
  static constexpr int wide = Work<is_backward>::wide;

 public:
  __device__ NumberRows(const Call<T, is_backward>& call, const StripPlace& place, int row, int column)
      : u_(call.up, call.x, place, row, column, bias_of(call.b, place.channel)),
        grad_(of_grad(call, place, row, column)),
        height_(static_cast<unsigned>(call.grad.filtering.y.out)),
        row_(static_cast<unsigned>(row)) {
#pragma unroll
    for (int o = 0; o < wide; ++o) {
      const unsigned x = static_cast<unsigned>(column + o);
      columns_ |= x < static_cast<unsigned>(call.grad.filtering.x.out) ? 1u << o : 0;
    }
  }

  __device__ void transposed(float (&weights)[DownFilter::weights]) const { u_.transposed(weights); }

  // The next row, in pair n, k being n % turn.
  template <class Act>
  __device__ void make(int k, int phase, const Act& act, float (&numbers)[wide]) {
    u_.make(k, phase, numbers);
    if constexpr (is_backward) {
      float grad[wide];
      grad_.make(k, phase, grad);
      // One branch for a row, for one in each number keeps them from being worked on side by side.
      if (act.is_limited()) {
#pragma unroll
        for (int o = 0; o < wide; ++o) numbers[o] = act(grad[o], numbers[o]);
      } else {
#pragma unroll
        for (int o = 0; o < wide; ++o) numbers[o] = act.unlimited(grad[o], numbers[o]);
      }
      // Beyond its edges there is no u, and no gradient of it, whatever the filter makes there.
      const unsigned inside = row_ < height_ ? columns_ : 0;
#pragma unroll
      for (int o = 0; o < wide; ++o) numbers[o] = (inside >> o & 1) != 0 ? numbers[o] : 0.0f;
      ++row_;
    } else {
#pragma unroll
      for (int o = 0; o < wide; ++o) numbers[o] = act(numbers[o]);
    }
  }

 private:
  struct Nothing {};
  __device__ static auto of_grad(const Call<T, is_backward>& call, const StripPlace& place, int row, int column) {
    if constexpr (is_backward) {
      return UpRows<wide, T, later>(call.grad, call.grad_y, place, row, column, no_bias<float>);
    } else {
      return Nothing{};
    }
  }

  UpRows<wide, T, later && !is_backward> u_;
  std::conditional_t<is_backward, UpRows<wide, T, later>, Nothing> grad_;
  unsigned height_, row_, columns_ = 0;  // of u, the next row, and a bit for each column inside
};

// The outputs of a strip, row by row, with the sums of those that are not complete.
template <int wide, class T>
class OutputRows {
  using C = OutputColumns<wide>;
  static constexpr int turn = DownFilter::turn;

 public:
  // `weights` fills in what samples are taken by.
  template <class Weights>
  __device__ OutputRows(const Weights& weights, const View<T, 4>& out, const StripPlace& place, const Bands& bands)
      : plane_(out.data + place.image * out.stride[0] + place.channel * out.stride[1]),
        at_(place.row * out.stride[2] + place.column),
        stride_(out.stride[2]),
        width_(static_cast<int>(out.size[3]) - place.column) {
    const int left = static_cast<int>(out.size[2]) - place.row;
    rows_ = !place.is_kept ? 0 : left < bands.steps ? left : bands.steps;
    vector_stores_ = bands.vector_stores && width_ >= C::outputs;
    weights(weights_);
#pragma unroll
    for (auto& row : sums_) fill(row, 0);
  }

  // Takes one row of pair n, k being n % turn: the pair's first row begins a row of outputs.
  __device__ void add(int k, int phase, const float (&numbers)[C::needed]) {
    float line[C::outputs] = {};
    add_along_x<DownFilter, C>(weights_ + DownFilter::Taps, numbers, false, line);
    if (phase == 0) fill(sums_[k], 0);
#pragma unroll
    for (int i = 0; i < turn; ++i) {
#pragma unroll
      for (int o = 0; o < C::outputs; ++o) {
        sums_[(k + turn - i) % turn][o] += weights_[i * DownFilter::Down + phase] * line[o];
      }
    }
  }

  // Stores the row of outputs that pair n completes, and returns their sum.
  __device__ float finish(int n, int k) {
    const int row = n - (turn - 1);
    const auto& made = sums_[(k + 1) % turn];
    float total = 0;
    if (row >= 0 && row < rows_) {
      T* to = plane_ + at_ + row * stride_;
      Vector<T, C::outputs> rounded;
#pragma unroll
      for (int o = 0; o < C::outputs; ++o) {
        rounded.item[o] = static_cast<T>(made[o]);
        if (o < width_) total += made[o];
        if (!vector_stores_ && o < width_) to[o] = rounded.item[o];
      }
      if (vector_stores_) *reinterpret_cast<Vector<T, C::outputs>*>(to) = rounded;
    }
    return total;
  }

 private:
  T* plane_;
  int64_t at_, stride_;
  int width_, rows_;
  bool vector_stores_;
  float weights_[DownFilter::weights], sums_[turn][C::outputs];
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
