// An LLTM over a sequence on the CPU: the steps of the backward, last to first, and the products behind them.
//
// Only the gradient of a hidden state goes from step to step: a product of the next step's gate gradients and the
// recurrent weight. Gate gradients of all steps are kept, and the gradients of input, weight and bias are products over
// steps and batch at once.
//
// Every element of a result is a sum in one order, by one thread: results do not depend on the number of threads.
#pragma once

#include "sequence_cpu_forward.h"

namespace opsmith::ops::lltm {
namespace {

// n units of one row. A hidden state has a gradient from outside and one from the step behind it.
struct SequenceBackwardUnits {
  template <class C>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, const C* __restrict__ grad_hidden, const C* __restrict__ from_next,
                                      const C* __restrict__ i, const C* __restrict__ o, const C* __restrict__ c,
                                      const C* __restrict__ new_cell, C* __restrict__ grad_cell, C* __restrict__ grad_i,
                                      C* __restrict__ grad_o, C* __restrict__ grad_c) const {
    for (int64_t k = 0; k < n; ++k) {
      const LltmGradient<C> grad =
          lltm_step_backward(grad_hidden[k] + from_next[k], grad_cell[k], i[k], o[k], c[k], new_cell[k]);
      grad_i[k] = grad.i;
      grad_o[k] = grad.o;
      grad_c[k] = grad.c;
      grad_cell[k] = grad.cell;
    }
  }
};

// n numbers added to others.
struct Add {
  template <class C>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, const C* __restrict__ from, C* __restrict__ to) const {
    for (int64_t k = 0; k < n; ++k) to[k] += from[k];
  }
};

template <class T>
struct SequenceGradients {
  View<const T, 3> grad_hiddens;
  View<const T, 2> grad_last_cell;
  View<const T, 3> input;
  View<const T, 2> hidden;
  View<const T, 2> weight;
  View<const T, 3> hiddens;
  View<const T, 3> gates;
  View<const T, 3> cells;
  View<T, 3> grad_input;
  View<T, 2> grad_hidden;
  View<T, 2> grad_cell;
  View<T, 2> grad_weight;
  View<T, 1> grad_bias;
};

template <class T>
class SequenceBackward {
 public:
  using C = compute_t<T>;

  explicit SequenceBackward(const SequenceGradients<T>& of)
      : of_(of),
        steps_(of.input.size[0]),
        batch_(of.input.size[1]),
        inputs_(of.input.size[2]),
        units_(of.hidden.size[1]),
        // An odd number of cache lines, lest the rows of a column share few places in the cache.
        row_(divide_up(3 * units_, 2 * line) * 2 * line + line),
        recurrent_(3 * units_, units_),
        to_input_(3 * units_, inputs_),
        hiddens_before_(steps_ * batch_, units_),
        inputs_packed_(steps_ * batch_, inputs_),
        grad_gates_(steps_ * batch_ * row_),
        from_next_(batch_ * units_),
        grad_cell_(batch_ * units_) {}

  void run() {
    pack();
    const int64_t multiply_adds = 3 * units_ * units_;
    if (splits_rows(batch_, batch_ * multiply_adds)) {
      const auto run_rows = [&](int64_t begin, int64_t end) {
        const int64_t first = begin * least_rows, last = std::min(batch_, end * least_rows);
        for (int64_t step = steps_; step >= 0; --step) go_back(step, first, last, 0, recurrent_.panels);
      };
      parallel_for(0, divide_up(batch_, least_rows), tasks_per_chunk(steps_ * least_rows * multiply_adds), run_rows);
    } else {
      for (int64_t step = steps_; step >= 0; --step) {
        parallel_for(0, recurrent_.panels, tasks_per_chunk(3 * units_ * panel<C> * batch_),
                     [&](int64_t begin, int64_t end) { go_back(step, 0, batch_, begin, end); });
      }
    }
    multiply_grad_input();
    multiply_grad_weight();
  }

 private:
  static constexpr int64_t line = 64 / sizeof(C);

  C* grad_gates(int64_t step, int64_t row) const { return grad_gates_.data + (step * batch_ + row) * row_; }

  // The weight, by rows; and, for the weight's gradient, what it was multiplied with.
  void pack() {
    const int64_t columns = units_ + inputs_;
    parallel_for(0, 3 * units_, tasks_per_chunk(8 * columns), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        recurrent_.set_row(n, &of_.weight(n, 0), of_.weight.stride[1]);
        to_input_.set_row(n, &of_.weight(n, units_), of_.weight.stride[1]);
      }
    });
    parallel_for(0, steps_ * batch_, tasks_per_chunk(8 * columns), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t step = at / batch_, row = at % batch_;
        if (step == 0) {
          hiddens_before_.set_row(at, &of_.hidden(row, 0), of_.hidden.stride[1]);
        } else {
          hiddens_before_.set_row(at, &of_.hiddens(step - 1, row, 0), of_.hiddens.stride[2]);
        }
        inputs_packed_.set_row(at, &of_.input(step, row, 0), of_.input.stride[2]);
      }
    });
  }

  // From the gate gradients of `step` to those of the step before, for some rows and the units of some panels. Step 0
  // has none before it: there the gradients of the first state come out.
  void go_back(int64_t step, int64_t begin, int64_t end, int64_t first_panel, int64_t last_panel) const {
    const int64_t unit = first_panel * panel<C>, count = std::min(units_, last_panel * panel<C>) - unit;
    const bool is_last = step == steps_;
    if (!is_last) {
      for (int64_t p = first_panel; p < last_panel; ++p) {
        recurrent_.multiply(p, end - begin, grad_gates(step, begin), row_,
                            from_next_.data + begin * units_ + p * panel<C>, units_);
      }
    }
    for (int64_t row = begin; row < end; ++row) {
      C* const from_next = from_next_.data + row * units_ + unit;
      C* const grad_cell = grad_cell_.data + row * units_ + unit;
      if (is_last) {
        std::fill_n(from_next, count, C(0));
        load_block(&of_.grad_last_cell(row, unit), of_.grad_last_cell.stride[1], count, grad_cell);
      }
      if (step == 0) {
        store_block(from_next, count, &of_.grad_hidden(row, unit), of_.grad_hidden.stride[1]);
        store_block(grad_cell, count, &of_.grad_cell(row, unit), of_.grad_cell.stride[1]);
      } else {
        for (int64_t k = 0; k < count; k += block_size) {
          differentiate(step - 1, row, unit + k, std::min(block_size, count - k));
        }
      }
    }
  }

  // The pointwise part: n units of one row.
  void differentiate(int64_t step, int64_t row, int64_t unit, int64_t n) const {
    const InputBlock<T> grad_hidden(&of_.grad_hiddens(step, row, unit), of_.grad_hiddens.stride[2], n);
    const InputBlock<T> i(&of_.gates(step, row, unit), of_.gates.stride[2], n);
    const InputBlock<T> o(&of_.gates(step, row, units_ + unit), of_.gates.stride[2], n);
    const InputBlock<T> c(&of_.gates(step, row, 2 * units_ + unit), of_.gates.stride[2], n);
    const InputBlock<T> new_cell(&of_.cells(step, row, unit), of_.cells.stride[2], n);
    C* const grad = grad_gates(step, row) + unit;
    with_best_isa(SequenceBackwardUnits{}, n, grad_hidden.data, from_next_.data + row * units_ + unit, i.data, o.data,
                  c.data, new_cell.data, grad_cell_.data + row * units_ + unit, grad, grad + units_, grad + 2 * units_);
  }

  void multiply_grad_input() const {
    const int64_t rows = steps_ * batch_;
    const auto run_rows = [&](int64_t begin, int64_t end) {
      alignas(64) C product[rows_ahead * panel<C>];
      for (int64_t first = begin * rows_ahead; first < std::min(rows, end * rows_ahead); first += rows_ahead) {
        const int64_t height = std::min(rows_ahead, rows - first);
        for (int64_t p = 0; p < to_input_.panels; ++p) {
          to_input_.multiply(p, height, grad_gates_.data + first * row_, row_, product, panel<C>);
          for (int64_t r = 0; r < height; ++r) {
            const int64_t step = (first + r) / batch_, row = (first + r) % batch_;
            store_block(product + r * panel<C>, to_input_.width(p), &of_.grad_input(step, row, p * panel<C>),
                        int64_t{1});
          }
        }
      }
    };
    const int64_t multiply_adds = 3 * units_ * inputs_ * rows_ahead;
    parallel_for(0, divide_up(rows, rows_ahead), tasks_per_chunk(multiply_adds), run_rows);
  }

  // Steps of a product that go into the first-level cache, of both operands; their sums are added up in order.
  static constexpr int64_t depth = 1024 / sizeof(C) / 2;

  // A task makes all columns of some rows: the gradients of as many gates, each of which is read once.
  void multiply_grad_weight() const {
    const int64_t rows = 3 * units_;
    const auto run_rows = [&](int64_t begin, int64_t end) {
      const int64_t columns = units_ + inputs_;
      Scratch<C> sum(panel<C> * columns);
      C bias[panel<C>];
      for (int64_t first = begin * panel<C>; first < std::min(rows, end * panel<C>); first += panel<C>) {
        const int64_t height = std::min(panel<C>, rows - first);
        std::fill_n(sum.data, panel<C> * columns, C(0));
        std::fill_n(bias, panel<C>, C(0));
        for (int64_t at = 0; at < steps_ * batch_; at += depth) {
          const int64_t count = std::min(depth, steps_ * batch_ - at);
          const C* const grad = grad_gates_.data + at * row_ + first;
          add_product(hiddens_before_, at, count, grad, height, sum.data, columns);
          add_product(inputs_packed_, at, count, grad, height, sum.data + units_, columns);
          for (int64_t k = 0; k < count; ++k) {
            for (int64_t r = 0; r < height; ++r) bias[r] += grad[k * row_ + r];
          }
        }
        for (int64_t r = 0; r < height; ++r) {
          store_block(sum.data + r * columns, columns, &of_.grad_weight(first + r, 0), int64_t{1});
        }
        store_block(bias, height, &of_.grad_bias(first), int64_t{1});
      }
    };
    const int64_t multiply_adds = panel<C> * steps_ * batch_ * (units_ + inputs_);
    parallel_for(0, divide_up(rows, panel<C>), tasks_per_chunk(multiply_adds), run_rows);
  }

  // to += grad^T operand, over `count` steps of the product from `at` on.
  void add_product(const Packed<C>& operand, int64_t at, int64_t count, const C* grad, int64_t height, C* to,
                   int64_t to_row) const {
    alignas(64) C product[panel<C> * panel<C>];
    for (int64_t p = 0; p < operand.panels; ++p) {
      multiply_panel(height, operand.width(p), count, grad, int64_t{1}, row_, operand.at(p) + at * panel<C>, panel<C>,
                     product, panel<C>);
      for (int64_t r = 0; r < height; ++r) {
        with_best_isa(Add{}, operand.width(p), product + r * panel<C>, to + r * to_row + p * panel<C>);
      }
    }
  }

  SequenceGradients<T> of_;
  int64_t steps_, batch_, inputs_, units_;
  int64_t row_;  // of grad_gates_
  Packed<C> recurrent_, to_input_;
  Packed<C> hiddens_before_, inputs_packed_;
  Scratch<C> grad_gates_;  // [T, B, row_]
  Scratch<C> from_next_, grad_cell_;
};

}  // namespace
}  // namespace opsmith::ops::lltm
