// One filter on the CPU, row by row: rows of weighted sums of rows.
//
// Outputs of one phase, which are up / gcd(up, down) apart, take the same taps from samples that lie down / gcd(up,
// down) apart. So a row of samples is dealt out into that many lines first, and the outputs of a phase are then
// weighted sums of pieces of lines: dense, without a branch, whatever up, down and the padding are. A separable filter
// goes along x as a row is read, and along y over the last few rows that it made.
//
// Multiples of these two numbers will do as well. Where the outputs of one filter are the samples of the next, both
// have the same number of lines, and a line goes from one to the other as it is.
#pragma once

#include <opsmith/block.h>

#include <numeric>
#include <vector>

#include "filtering.h"
#include "rows.h"

namespace opsmith::ops::filters {
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
  int64_t origin;        // the first pixel of the first line is this sample; may be negative
  int64_t line;          // pixels in a line
  int64_t phase_pixels;  // outputs in a phase, and some more

  // `multiple` is how often the least number of phases; `line_origin` asks for an origin that is a multiple of `step`.
  Rows(const Axis& x, int64_t unit, int64_t multiple, bool line_origin) : unit(unit) {
    const int64_t common = std::gcd(x.up, x.down);
    step = x.down / common * multiple;
    origin = x.first_input(0);
    if (line_origin) origin -= ((origin % step) + step) % step;
    const int64_t phases = x.up / common * multiple;
    // Whole vectors: what is summed beyond the last output is a fraction of what single elements would take.
    const int64_t whole = widest_vector / std::gcd(unit, widest_vector);
    phase_pixels = ((x.out + phases - 1) / phases + whole - 1) / whole * whole;
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
  int64_t phases() const { return static_cast<int64_t>(phase.size()); }
  // How many outputs a phase has.
  int64_t pixels_of(int64_t index, int64_t width) const { return (width - index + phases() - 1) / phases(); }
};

// One filter, for one thread: buffers, and the rows that were read last.
template <class C>
class Stage {
 public:
  Stage(const Filtering& filtering, const Taps<C>& taps, int64_t unit, int64_t multiple = 1, bool line_origin = false)
      : rows(filtering.x, unit, multiple, line_origin),
        filtering_(filtering),
        taps_(taps),
        kept_(filtering.y.most_inputs()) {
    row_size_ = filtering.separable ? rows.outputs() : rows.lines();
    lines_.resize(static_cast<size_t>(filtering.separable ? rows.lines() : 0));
    ring_.resize(static_cast<size_t>(kept_ * row_size_));
    zeros_.resize(static_cast<size_t>(row_size_));
    phases_.resize(static_cast<size_t>(rows.outputs()));
  }

  // Forgets the rows: the next ones are of another image, or before those.
  void begin(int64_t o) { next_ = filtering_.y.first_input(o); }

  // Row o of the outputs, phase after phase, each `phase_pixels` long; valid until the next call. Rows are asked for in
  // order. read(row, lines) fills a row's lines where there are samples: elsewhere they are zero and stay so.
  template <class Read>
  const C* row(int64_t o, const Read& read) {
    const Axis& y = filtering_.y;
    const int64_t first = y.first_input(o), behind = first + y.inputs(o);
    if (next_ < first) next_ = first;
    for (; next_ < behind; ++next_) {
      if (next_ >= 0 && next_ < y.in) read_row(next_, read);
    }
    for (size_t index = 0; index < rows.phase.size(); ++index) sum_phase(first, behind, y.first_tap(o), index);
    return phases_.data();
  }

  const Rows rows;

 private:
  C* kept_row(int64_t row) { return ring_.data() + row % kept_ * row_size_; }

  // Reads a row of samples into the ring, filtered along x where the filter is separable.
  template <class Read>
  void read_row(int64_t row, const Read& read) {
    if (!filtering_.separable) return read(row, kept_row(row));
    read(row, lines_.data());
    for (size_t index = 0; index < rows.phase.size(); ++index) {
      source_.clear();
      weight_.clear();
      add_terms(rows.phase[index], lines_.data(), taps_.x.data());
      sum_rows(rows.phase_pixels * rows.unit, taps_.start, source_, weight_,
               kept_row(row) + static_cast<int64_t>(index) * rows.phase_pixels * rows.unit);
    }
  }

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
    const int64_t offset = static_cast<int64_t>(index) * rows.phase_pixels * rows.unit;
    source_.clear();
    weight_.clear();
    for (int64_t row = first; row < behind; ++row, tap += y.up) {
      const C* from = row >= 0 && row < y.in ? kept_row(row) : zeros_.data();
      if (filtering_.separable) {
        source_.push_back(from + offset);
        weight_.push_back(taps_.y[static_cast<size_t>(tap)]);
      } else {
        add_terms(rows.phase[index], from, taps_.y.data() + tap * filtering_.x.taps);
      }
    }
    sum_rows(rows.phase_pixels * rows.unit, taps_.start, source_, weight_, phases_.data() + offset);
  }

  const Filtering& filtering_;
  const Taps<C>& taps_;
  int64_t kept_, row_size_, next_ = 0;
  std::vector<C> lines_, ring_, zeros_, phases_;
  std::vector<const C*> source_;
  std::vector<C> weight_;
};

// to[i] += bias[i % unit] for i < pixels * unit.
template <class C>
__attribute__((noinline)) void add_bias(int64_t pixels, int64_t unit, const C* bias, C* to) {
  with_best_isa(
      [](int64_t pixels, int64_t unit, const C* __restrict__ bias, C* __restrict__ to) {
        if (unit == 1) {
          for (int64_t i = 0; i < pixels; ++i) to[i] += *bias;
        } else {
          for (int64_t i = 0; i < pixels; ++i) {
            for (int64_t c = 0; c < unit; ++c) to[i * unit + c] += bias[c];
          }
        }
      },
      pixels, unit, bias, to);
}

// Splits a row of samples, [width channel], into lines; `row` has room for it. `bias`, one number for each channel, is
// added where it is given.
template <class T, class C>
void deal_out(const View<const T, 2>& samples, const Rows& rows, std::vector<C>& row, C* lines,
              const C* bias = nullptr) {
  const int64_t unit = rows.unit, step = rows.step, from = rows.origin, width = samples.size[0];
  if (unit == 1 && step > 1) load_block(samples.data, samples.stride[0], width, row.data());
  for (int64_t part = 0; part < step; ++part) {
    // Of samples[from + step * j + part], those that exist.
    const int64_t begin = from + part < 0 ? ceil_div(-from - part, step) : 0;
    int64_t end = ceil_div(width - from - part, step);
    if (end > rows.line) end = rows.line;
    if (end <= begin) continue;
    C* to = lines + (part * rows.line + begin) * unit;
    const int64_t first = from + step * begin + part;
    if (unit > 1) {
      for (int64_t j = 0; j < end - begin; ++j) {
        load_block(&samples(first + step * j, 0), samples.stride[1], unit, to + j * unit);
      }
    } else if (step == 1) {
      load_block(&samples(first, 0), samples.stride[0], end - begin, to);
    } else {
      take_every(step, end - begin, row.data() + first, to);
    }
    if (bias != nullptr) add_bias(end - begin, unit, bias, to);
  }
}

// Puts the phases of a row of outputs, [width channel], in their places. `row` has room for it.
template <class T, class C>
void write_row(const C* phases, const Rows& rows, std::vector<C>& row, const View<T, 2>& out) {
  const int64_t count = rows.phases(), width = out.size[0];
  if (rows.unit > 1) {
    for (int64_t column = 0; column < width; ++column) {
      const C* from = phases + (column % count * rows.phase_pixels + column / count) * rows.unit;
      store_block(from, rows.unit, &out(column, 0), out.stride[1]);
    }
    return;
  }
  if (count == 1) return store_block(phases, width, out.data, out.stride[0]);
  C* to = row.data();
  if constexpr (std::is_same_v<T, C>) {
    if (out.stride[0] == 1) to = out.data;
  }
  interleave(count, width, phases, rows.phase_pixels, to);
  if (to == row.data()) store_block(to, width, out.data, out.stride[0]);
}

}  // namespace
}  // namespace opsmith::ops::filters
