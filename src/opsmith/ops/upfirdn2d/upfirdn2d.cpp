// upfirdn2d on the CPU: rows of weighted sums of rows.
//
// Outputs of one phase, which are up / gcd(up, down) apart, take the same taps from samples that lie down / gcd(up,
// down) apart. So a row of samples is dealt out into that many lines first, and the outputs of a phase are then
// weighted sums of pieces of lines: dense, without a branch, whatever up, down and the padding are. A separable filter
// goes along x as a row is read, and along y over the last few rows that it made.
#include "upfirdn2d.h"

#include <opsmith/block.h>

#include <numeric>
#include <vector>

#include "rows.h"

using namespace opsmith;

namespace {

// g, in the order of the sums: taps along x, and those along y with the gain in them. Not separable, `y` holds all.
template <class C>
struct Taps {
  std::vector<C> y, x;
  C start = 0;  // what sums begin with: NaN where a tap is, so that outputs which it does not meet are so, too

  Taps(const View<const float, 2>& f, const Filtering& filtering) {
    const int64_t rows = f.size[0], columns = f.size[1];
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t row = filtering.reversed && !filtering.separable ? rows - 1 - i : i;
        const C tap = static_cast<C>(f(row, filtering.reversed ? columns - 1 - j : j));
        const bool is_x = filtering.separable && i == 1;
        (is_x ? x : y).push_back(is_x ? tap : tap * static_cast<C>(filtering.gain));
      }
    }
    for (const std::vector<C>* taps : {&y, &x}) {
      for (const C tap : *taps) start = tap != tap ? tap : start;
    }
  }
};

// The outputs o, o + phases, o + 2 phases, ... of a row: the first tap along x, and where in a row's lines the samples
// of the first output are. Worked out once, because rows are many and divisions slow.
struct Phase {
  int64_t first_tap;
  std::vector<int64_t> samples;
};

// How rows of samples and of outputs lie in the buffers. A pixel is `unit` channels side by side.
struct Rows {
  std::vector<Phase> phase;
  int64_t unit;
  int64_t step;          // how far apart in x the outputs of a phase are: the number of lines
  int64_t origin;        // the first sample that any output needs; may be negative
  int64_t line;          // pixels in a line
  int64_t phase_pixels;  // outputs in a phase, at most

  Rows(const Axis& x, int64_t unit) : unit(unit) {
    const int64_t common = std::gcd(x.up, x.down);
    step = x.down / common;
    origin = x.first_input(0);
    const int64_t phases = x.up / common;
    phase_pixels = (x.out + phases - 1) / phases;
    line = phase_pixels;
    for (int64_t o = 0; o < phases && o < x.out; ++o) {
      const int64_t behind = (x.first_input(o) - origin + x.inputs(o)) / step + phase_pixels;
      if (behind > line) line = behind;
    }
    for (int64_t o = 0; o < phases && o < x.out; ++o) {
      phase.push_back({x.first_tap(o), {}});
      for (int64_t k = 0; k < x.inputs(o); ++k) {
        const int64_t sample = x.first_input(o) - origin + k;
        phase.back().samples.push_back((sample % step * line + sample / step) * unit);
      }
    }
  }

  int64_t lines() const { return step * line * unit; }
  int64_t outputs() const { return static_cast<int64_t>(phase.size()) * phase_pixels * unit; }
};

// Everything for one chunk of work: buffers, and the rows that were read last.
template <class T>
class Resampler {
  using C = compute_t<T>;

 public:
  Resampler(const Filtering& filtering, const Taps<C>& taps, int64_t unit)
      : filtering_(filtering), taps_(taps), rows_(filtering.x, unit), kept_(filtering.y.most_inputs()) {
    row_size_ = filtering.separable ? rows_.outputs() : rows_.lines();
    lines_.resize(static_cast<size_t>(rows_.lines()));
    ring_.resize(static_cast<size_t>(kept_ * row_size_));
    zeros_.resize(static_cast<size_t>(row_size_));
    phases_.resize(static_cast<size_t>(rows_.outputs()));
    row_.resize(static_cast<size_t>((filtering.x.in > filtering.x.out ? filtering.x.in : filtering.x.out) * unit));
  }

  // Rows [begin, end) of an image's output: x and out are its views from the first channel on, [height width channel].
  void run(const View<const T, 3>& x, int64_t begin, int64_t end, const View<T, 3>& out) {
    const Axis& y = filtering_.y;
    int64_t next = y.first_input(begin);  // the first row that has not been read
    for (int64_t o = begin; o < end; ++o) {
      const int64_t first = y.first_input(o), behind = first + y.inputs(o);
      if (next < first) next = first;
      for (; next < behind; ++next) {
        if (next >= 0 && next < y.in) read_row(x, next);
      }
      for (size_t index = 0; index < rows_.phase.size(); ++index) sum_phase(first, behind, y.first_tap(o), index);
      write_row(out, o);
    }
  }

 private:
  C* kept_row(int64_t row) { return ring_.data() + row % kept_ * row_size_; }

  // Reads a row of samples into the ring, filtered along x where the filter is separable.
  void read_row(const View<const T, 3>& x, int64_t row) {
    C* lines = filtering_.separable ? lines_.data() : kept_row(row);
    deal_out(x, row, lines);
    if (!filtering_.separable) return;
    for (size_t index = 0; index < rows_.phase.size(); ++index) {
      source_.clear();
      weight_.clear();
      add_terms(rows_.phase[index], lines, taps_.x.data());
      sum_rows(rows_.phase_pixels * rows_.unit, taps_.start, source_, weight_,
               kept_row(row) + static_cast<int64_t>(index) * rows_.phase_pixels * rows_.unit);
    }
  }

  // Splits a row of samples into lines; what no sample is for stays zero from the beginning.
  void deal_out(const View<const T, 3>& x, int64_t row, C* lines) {
    const int64_t unit = rows_.unit, step = rows_.step, from = rows_.origin;
    const T* samples = &x(row, 0, 0);
    if (unit == 1 && step > 1) load_row(samples, x.stride[1], x.size[1], row_.data());
    for (int64_t part = 0; part < step; ++part) {
      // Of x[from + step * j + part], those that exist.
      const int64_t begin = from + part < 0 ? ceil_div(-from - part, step) : 0;
      int64_t end = ceil_div(x.size[1] - from - part, step);
      if (end > rows_.line) end = rows_.line;
      if (end <= begin) continue;
      C* to = lines + (part * rows_.line + begin) * unit;
      const int64_t first = from + step * begin + part;
      if (unit > 1) {
        for (int64_t j = 0; j < end - begin; ++j) {
          load_block(samples + (first + step * j) * x.stride[1], 1, unit, to + j * unit);
        }
      } else if (step == 1) {
        load_row(samples + first * x.stride[1], x.stride[1], end - begin, to);
      } else {
        take_every(step, end - begin, row_.data() + first, to);
      }
    }
  }

  static void load_row(const T* from, int64_t stride, int64_t n, C* to) { load_block(from, stride, n, to); }

  // Adds what the outputs of a phase take from a row's lines, by `taps` along x.
  void add_terms(const Phase& phase, const C* lines, const C* taps) {
    const C* tap = taps + phase.first_tap;
    for (const int64_t sample : phase.samples) {
      source_.push_back(lines + sample);
      weight_.push_back(*tap);
      tap += filtering_.x.up;
    }
  }

  // One phase of the outputs of a row, from the rows [first, behind) and every up-th tap along y.
  void sum_phase(int64_t first, int64_t behind, int64_t tap, size_t index) {
    const Axis& y = filtering_.y;
    const int64_t offset = static_cast<int64_t>(index) * rows_.phase_pixels * rows_.unit;
    source_.clear();
    weight_.clear();
    for (int64_t row = first; row < behind; ++row, tap += y.up) {
      const C* from = row >= 0 && row < y.in ? kept_row(row) : zeros_.data();
      if (filtering_.separable) {
        source_.push_back(from + offset);
        weight_.push_back(taps_.y[static_cast<size_t>(tap)]);
      } else {
        add_terms(rows_.phase[index], from, taps_.y.data() + tap * filtering_.x.taps);
      }
    }
    sum_rows(rows_.phase_pixels * rows_.unit, taps_.start, source_, weight_, phases_.data() + offset);
  }

  // Puts the phases of a row of outputs in their places.
  void write_row(const View<T, 3>& out, int64_t o) {
    const int64_t phases = static_cast<int64_t>(rows_.phase.size()), width = filtering_.x.out;
    if (rows_.unit > 1) {
      for (int64_t column = 0; column < width; ++column) {
        const C* from = phases_.data() + (column % phases * rows_.phase_pixels + column / phases) * rows_.unit;
        store_block(from, rows_.unit, &out(o, column, 0), 1);
      }
      return;
    }
    if (phases == 1) return store_block(phases_.data(), width, &out(o, 0, 0), out.stride[1]);
    C* row = row_.data();
    if constexpr (std::is_same_v<T, C>) {
      if (out.stride[1] == 1) row = &out(o, 0, 0);
    }
    interleave(phases, width, phases_.data(), rows_.phase_pixels, row);
    if (row == row_.data()) store_block(row, width, &out(o, 0, 0), out.stride[1]);
  }

  const Filtering& filtering_;
  const Taps<C>& taps_;
  const Rows rows_;
  int64_t kept_, row_size_;
  std::vector<C> lines_, ring_, zeros_, phases_, row_;
  std::vector<const C*> source_;
  std::vector<C> weight_;
};

// Channels that are worked on together where they lie side by side (channels_last): a vector or two, and few enough for
// the rows in use to stay in the cache.
constexpr int64_t most_units = 32;

// Outputs of one piece of work: the rows at its beginning are read again by the piece before, so not too few.
constexpr int64_t outputs_per_band = 1 << 15;

template <class T>
void resample(const View<const T, 4>& x, const View<const float, 2>& f, const Filtering& filtering,
              const View<T, 4>& out) {
  const int64_t channels = out.size[1], height = out.size[2], width = out.size[3];
  if (out.numel() == 0) return;
  const Taps<compute_t<T>> taps(f, filtering);
  const bool together = channels > 1 && out.stride[1] == 1 && (x.numel() == 0 || x.stride[1] == 1);
  const int64_t unit = !together ? 1 : channels < most_units ? channels : most_units;
  const int64_t groups = (channels + unit - 1) / unit;
  const int64_t rows = outputs_per_band / (width * unit) + 1;
  const int64_t bands = (height + rows - 1) / rows;
  parallel_for(0, out.size[0] * groups * bands, 1, [&](int64_t begin, int64_t end) {
    Resampler<T> whole(filtering, taps, unit);
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t band = piece % bands, group = piece / bands % groups, image = piece / bands / groups;
      const int64_t channel = group * unit, count = channels - channel < unit ? channels - channel : unit;
      const View<const T, 3> from{x.data + image * x.stride[0] + channel * x.stride[1],
                                  {x.size[2], x.size[3], count},
                                  {x.stride[2], x.stride[3], x.stride[1]}};
      const View<T, 3> to{out.data + image * out.stride[0] + channel * out.stride[1],
                          {height, width, count},
                          {out.stride[2], out.stride[3], out.stride[1]}};
      const int64_t first = band * rows, behind = first + rows < height ? first + rows : height;
      if (count == unit) {
        whole.run(from, first, behind, to);
      } else {
        Resampler<T>(filtering, taps, count).run(from, first, behind, to);
      }
    }
  });
}

}  // namespace

template <class T>
void upfirdn2d_sized(View<const T, 4> x, View<const float, 2> f, int64_t height, int64_t width, int64_t out_height,
                     int64_t out_width, int64_t up_y, int64_t up_x, int64_t down_y, int64_t down_x, int64_t pad_y,
                     int64_t pad_x, bool separable, bool flip, double gain, View<T, 4> out) {
  resample(x, f,
           read_arguments(f, height, width, out_height, out_width, up_y, up_x, down_y, down_x, pad_y, pad_x, separable,
                          flip, gain),
           out);
}

template <class T>
void upfirdn2d_transposed(View<const T, 4> grad_out, View<const float, 2> f, int64_t height, int64_t width,
                          int64_t out_height, int64_t out_width, int64_t up_y, int64_t up_x, int64_t down_y,
                          int64_t down_x, int64_t pad_y, int64_t pad_x, bool separable, bool flip, double gain,
                          View<T, 4> grad_x) {
  resample(grad_out, f,
           read_arguments(f, height, width, out_height, out_width, up_y, up_x, down_y, down_x, pad_y, pad_x, separable,
                          flip, gain)
               .transposed(),
           grad_x);
}
