// filtered_lrelu on the CPU: rows of u go from one filter to the next as they are made, and are never all there.
//
// Each filter is a Stage of upfirdn2d, which keeps the last few rows that it needs: what is between x and y are some
// rows of u, which stay in the cache, and no number of u is made twice but at the edges of bands. All stages have a
// row of u as lcm(up, down) lines, so between the filters there is one pass over dense lines and nothing else.
#include "filtered_lrelu.h"

#include <opsmith/reduce.h>

#include <algorithm>

#include "../_filters/pieces.h"
#include "../_filters/stage.h"

using namespace opsmith;
using namespace opsmith::ops::filters;
using namespace opsmith::ops::filtered_lrelu;

namespace opsmith::ops::filtered_lrelu {
namespace {

// The filters of a call with their taps, and how many lines a row of u has.
template <class C>
struct Plan {
  Filters filters;
  Taps<C> up, down;
  int64_t lines;

  Plan(const View<const float, 2>& fu, const View<const float, 2>& fd, const Filters& filters)
      : filters(filters),
        up(fu, filters.up),
        down(fd, filters.down),
        lines(std::lcm(filters.up.x.up, filters.down.x.down)) {}
};

// A stage with the row of samples that it reads in.
template <class T>
struct Reader {
  using C = compute_t<T>;

  Stage<C> stage;
  std::vector<C> row;

  Reader(const Filtering& filtering, const Taps<C>& taps, int64_t unit, int64_t multiple)
      : stage(filtering, taps, unit, multiple), row(static_cast<size_t>(filtering.x.in * unit)) {}
};

// x + b, filtered and upsampled: makes rows of u.
template <class T>
class Upsampler {
  using C = compute_t<T>;

 public:
  Upsampler(const Plan<C>& plan, int64_t unit)
      : reader_(plan.filters.up, plan.up, unit, plan.lines / plan.filters.up.x.up), bias_(static_cast<size_t>(unit)) {}

  void begin(const View<const T, 4>& x, const View<const T, 1>& b, const Piece& piece, int64_t row) {
    x_ = rows_of(x, piece);
    for (int64_t c = 0; c < piece.count; ++c) {
      bias_[static_cast<size_t>(c)] = b ? static_cast<C>(b(piece.channel + c)) : no_bias<C>;
    }
    reader_.stage.begin(row);
  }

  const C* row(int64_t r) {
    return reader_.stage.row(
        r, [this](int64_t row, C* lines) { deal_out(row_of(x_, row), rows(), reader_.row, lines, bias_.data()); });
  }

  const Rows& rows() const { return reader_.stage.rows; }

 private:
  Reader<T> reader_;
  std::vector<C> bias_;
  View<const T, 3> x_;
};

// Fills the lines of the next filter with f of rows of u, or of other rows like them, of `width` pixels.
template <class F, class C, class... In>
void map_lines(const F& f, const Rows& from, int64_t width, const Rows& to, C* lines, const C* first,
               const In*... rest) {
  const int64_t shift = to.origin / to.step;
  for (int64_t p = 0; p < from.phases(); ++p) {
    const int64_t begin = std::max(int64_t{0}, shift), end = std::min(from.pixels_of(p, width), shift + to.line);
    if (begin >= end) continue;
    const int64_t offset = (p * from.phase_pixels + begin) * from.unit;
    elementwise_block(f, (end - begin) * from.unit, lines + (p * to.line + begin - shift) * to.unit, first + offset,
                      rest + offset...);
  }
}

// One thread's way from x to y.
template <class T>
class ForwardPass {
  using C = compute_t<T>;

 public:
  ForwardPass(const Plan<C>& plan, const Activate<C>& act, int64_t unit)
      : plan_(plan),
        act_(act),
        up_(plan, unit),
        down_(plan.filters.down, plan.down, unit, plan.lines / plan.filters.down.x.down, true),
        row_(static_cast<size_t>(plan.filters.down.x.out * unit)) {}

  void run(const View<const T, 4>& x, const View<const T, 1>& b, const View<T, 4>& y, const Piece& piece) {
    const View<T, 3> to = rows_of(y, piece);
    down_.begin(piece.begin);
    up_.begin(x, b, piece, plan_.filters.down.y.first_input(piece.begin));
    for (int64_t o = piece.begin; o < piece.end; ++o) {
      const C* phases = down_.row(o, [&](int64_t r, C* lines) {
        map_lines(act_, up_.rows(), plan_.filters.up.x.out, down_.rows, lines, up_.row(r));
      });
      write_row(phases, down_.rows, row_, row_of(to, o));
    }
  }

 private:
  const Plan<C>& plan_;
  const Activate<C>& act_;
  Upsampler<T> up_;
  Stage<C> down_;
  std::vector<C> row_;
};

// The filters of the gradient, of which the plan has the others.
template <class C>
struct Transposed {
  Filtering up, down;
  Taps<C> up_taps, down_taps;

  Transposed(const View<const float, 2>& fu, const View<const float, 2>& fd, const Filters& filters)
      : up(filters.up.transposed()), down(filters.down.transposed()), up_taps(fu, up), down_taps(fd, down) {}
};

// One thread's way from grad_y to grad_x, with u beside it.
template <class T>
class BackwardPass {
  using C = compute_t<T>;

 public:
  BackwardPass(const Plan<C>& plan, const Transposed<C>& transposed, const Differentiate<C>& act, int64_t unit)
      : plan_(plan),
        transposed_(transposed),
        act_(act),
        up_(plan, unit),
        grad_(transposed.down, transposed.down_taps, unit, plan.lines / plan.filters.down.x.down),
        back_(transposed.up, transposed.up_taps, unit, plan.lines / plan.filters.up.x.up, true),
        row_(static_cast<size_t>(transposed.up.x.out * unit)) {}

  // Adds the sums of grad_x over the piece to `sums`, one for each channel of it, where they are asked for.
  void run(const View<const T, 4>& grad_y, const View<const T, 4>& x, const View<const T, 1>& b,
           const View<T, 4>& grad_x, const Piece& piece, double* sums) {
    const View<const T, 3> from = rows_of(grad_y, piece);
    const View<T, 3> to = rows_of(grad_x, piece);
    const int64_t first = std::max(int64_t{0}, transposed_.up.y.first_input(piece.begin));
    back_.begin(piece.begin);
    grad_.stage.begin(first);
    up_.begin(x, b, piece, first);
    for (int64_t o = piece.begin; o < piece.end; ++o) {
      const C* phases = back_.row(o, [&](int64_t r, C* lines) {
        const C* grad = grad_.stage.row(
            r, [&](int64_t row, C* samples) { deal_out(row_of(from, row), grad_.stage.rows, grad_.row, samples); });
        map_lines(act_, up_.rows(), plan_.filters.up.x.out, back_.rows, lines, grad, up_.row(r));
      });
      write_row(phases, back_.rows, row_, row_of(to, o));
      if (sums != nullptr) add_sums(phases, sums);
    }
  }

 private:
  // What a row is before rounding.
  void add_sums(const C* phases, double* sums) const {
    const Rows& rows = back_.rows;
    for (int64_t p = 0; p < rows.phases(); ++p) {
      const C* from = phases + p * rows.phase_pixels * rows.unit;
      const int64_t pixels = rows.pixels_of(p, transposed_.up.x.out);
      if (rows.unit == 1) {
        sums[0] += sum_block(pixels, from);
      } else {
        for (int64_t i = 0; i < pixels; ++i) {
          for (int64_t c = 0; c < rows.unit; ++c) sums[c] += static_cast<double>(from[i * rows.unit + c]);
        }
      }
    }
  }

  const Plan<C>& plan_;
  const Transposed<C>& transposed_;
  const Differentiate<C>& act_;
  Upsampler<T> up_;
  Reader<T> grad_;
  Stage<C> back_;
  std::vector<C> row_;
};

// Calls run(pass, piece, index) for each piece of an output on several threads, with a pass that make(unit) has made.
template <class Make, class Run>
void for_each_piece(const Pieces& pieces, const Make& make, const Run& run) {
  parallel_for(0, pieces.count(), 1, [&](int64_t begin, int64_t end) {
    auto whole = make(pieces.unit);
    for (int64_t index = begin; index < end; ++index) {
      const Piece piece = pieces[index];
      if (piece.count == pieces.unit) {
        run(whole, piece, index);
      } else {
        auto rest = make(piece.count);
        run(rest, piece, index);
      }
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu

template <class T>
void filtered_lrelu_sized(View<const T, 4> x, View<const float, 2> fu, View<const float, 2> fd, View<const T, 1> b,
                          Oversampling oversampling, Activation activation, View<T, 4> y) {
  using C = compute_t<T>;
  const Activate<C> act(activation);
  const Plan<C> plan(fu, fd, read_filters(fu, fd, x.size[2], x.size[3], oversampling));
  if (y.numel() == 0) return;
  const Pieces pieces(y, is_side_by_side(x) && is_side_by_side(y));
  for_each_piece(
      pieces, [&](int64_t unit) { return ForwardPass<T>(plan, act, unit); },
      [&](ForwardPass<T>& pass, const Piece& piece, int64_t) { pass.run(x, b, y, piece); });
}

template <class T>
void filtered_lrelu_backward(View<const T, 4> grad_y, View<const T, 4> x, View<const float, 2> fu,
                             View<const float, 2> fd, View<const T, 1> b, Oversampling oversampling,
                             Activation activation, bool needs_grad_b, View<T, 4> grad_x, View<T, 1> grad_b) {
  using C = compute_t<T>;
  const Differentiate<C> act(activation);
  const Plan<C> plan(fu, fd, read_filters(fu, fd, x.size[2], x.size[3], oversampling));
  const Transposed<C> transposed(fu, fd, plan.filters);
  std::vector<double> total(static_cast<size_t>(needs_grad_b ? x.size[1] : 0));
  if (grad_x.numel() > 0) {
    const Pieces pieces(grad_x, is_side_by_side(x) && is_side_by_side(grad_y) && is_side_by_side(grad_x));
    // The sums of each piece, which are added up in their order: the same for any number of threads.
    std::vector<double> sums(static_cast<size_t>(needs_grad_b ? pieces.count() * pieces.unit : 0));
    for_each_piece(
        pieces, [&](int64_t unit) { return BackwardPass<T>(plan, transposed, act, unit); },
        [&](BackwardPass<T>& pass, const Piece& piece, int64_t index) {
          pass.run(grad_y, x, b, grad_x, piece, needs_grad_b ? sums.data() + index * pieces.unit : nullptr);
        });
    for (int64_t index = 0; needs_grad_b && index < pieces.count(); ++index) {
      const Piece piece = pieces[index];
      for (int64_t c = 0; c < piece.count; ++c) {
        total[static_cast<size_t>(piece.channel + c)] += sums[static_cast<size_t>(index * pieces.unit + c)];
      }
    }
  }
  for (size_t c = 0; c < total.size(); ++c) {
    grad_b(static_cast<int64_t>(c)) = static_cast<T>(static_cast<C>(total[c]));
  }
}
