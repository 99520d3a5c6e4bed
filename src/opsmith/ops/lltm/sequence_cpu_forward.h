// An LLTM over a sequence on the CPU: the steps of the forward.
//
// The weight is packed once for all steps. The input's part of the gates, with the bias, is computed for some steps
// ahead; what remains for a step is the product of the last hidden state, of the rows and units that one thread has,
// and the pointwise part behind it. Rows of the batch are independent, so with enough of them threads never wait for
// each other; with few, they share a step's units and meet after each.
//
// Every element of a result is a sum in one order, by one thread: results do not depend on the number of threads.
#pragma once

#include <opsmith/native.h>

#include <type_traits>

#include "packed.h"
#include "pointwise.h"

namespace opsmith::ops::lltm {
namespace {

// Rows that a thread takes at least: a tile's height on AVX-512.
constexpr int64_t least_rows = 8;

// Rows of one product with the input's weights: a multiple of every tile's height.
constexpr int64_t rows_ahead = 48;

// Whether threads get rows of the batch, or units. Starting them in every step pays from 10 us a step on.
inline bool splits_rows(int64_t batch, int64_t multiply_adds_per_step) {
  return divide_up(batch, least_rows) >= static_cast<int64_t>(torch::stable::get_num_threads()) ||
         multiply_adds_per_step < (int64_t{1} << 20);
}

// A result of all steps [T, B, columns] in the type to compute in: the tensor itself or, where that has 16 bits, the
// last `window` steps of it, which are rounded and copied out.
template <class T>
class Computed {
 public:
  using C = compute_t<T>;

  Computed(const View<T, 3>& to, int64_t window)
      : to_(to), window_(window), memory_(is_stored ? 0 : window * to.size[1] * to.size[2]) {}

  C* at(int64_t step, int64_t row) const {
    const int64_t batch = to_.size[1], columns = to_.size[2];
    if constexpr (is_stored) {
      return to_.data + (step * batch + row) * columns;
    } else {
      return memory_.data + (step % window_ * batch + row) * columns;
    }
  }

  void store(int64_t step, int64_t row, int64_t begin, int64_t count) const {
    if constexpr (!is_stored) store_block(at(step, row) + begin, count, &to_(step, row, begin), int64_t{1});
  }

 private:
  static constexpr bool is_stored = std::is_same_v<T, C>;

  View<T, 3> to_;
  int64_t window_;
  Scratch<C> memory_;
};

// n units of one row. The gates hold the input's part before, and the pre-activations afterwards.
struct SequenceForwardUnits {
  template <class C>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, const C* __restrict__ product_i, const C* __restrict__ product_o,
                                      const C* __restrict__ product_c, const C* __restrict__ cell, C* __restrict__ i,
                                      C* __restrict__ o, C* __restrict__ c, C* __restrict__ hidden,
                                      C* __restrict__ new_cell) const {
    for (int64_t k = 0; k < n; ++k) {
      const C pre_i = i[k] + product_i[k], pre_o = o[k] + product_o[k], pre_c = c[k] + product_c[k];
      const LltmState<C> next = lltm_step(pre_i, pre_o, pre_c, cell[k]);
      i[k] = pre_i;
      o[k] = pre_o;
      c[k] = pre_c;
      hidden[k] = next.hidden;
      new_cell[k] = next.cell;
    }
  }
};

template <class T>
struct SequenceTensors {
  View<const T, 3> input;
  View<const T, 2> hidden;
  View<const T, 2> cell;
  View<const T, 2> weight;
  View<const T, 1> bias;
  View<T, 3> hiddens;
  View<T, 2> last_cell;
  View<T, 3> gates;
  View<T, 3> cells;
};

template <class T>
class SequenceForward {
 public:
  using C = compute_t<T>;

  explicit SequenceForward(const SequenceTensors<T>& of)
      : of_(of),
        steps_(of.input.size[0]),
        batch_(of.input.size[1]),
        inputs_(of.input.size[2]),
        units_(of.hidden.size[1]),
        window_(divide_up(rows_ahead, std::max<int64_t>(1, batch_))),
        recurrent_{{units_, units_}, {units_, units_}, {units_, units_}},
        from_input_(inputs_ + 1, 3 * units_),
        gates_(of.gates, window_),
        hiddens_(of.hiddens, 2),
        cells_(of.cells, 2),
        first_hidden_(batch_ * units_),
        first_cell_(batch_ * units_),
        input_(window_ * batch_ * (inputs_ + 1)),
        product_(batch_ * 3 * units_) {}

  void run() {
    pack_weight();
    for (int64_t row = 0; row < batch_; ++row) {
      load_block(&of_.hidden(row, 0), of_.hidden.stride[1], units_, first_hidden_.data + row * units_);
      load_block(&of_.cell(row, 0), of_.cell.stride[1], units_, first_cell_.data + row * units_);
    }
    const int64_t multiply_adds = 3 * units_ * units_;
    if (splits_rows(batch_, batch_ * multiply_adds)) {
      const auto run_rows = [&](int64_t begin, int64_t end) {
        run_steps(begin * least_rows, std::min(batch_, end * least_rows));
      };
      parallel_for(0, divide_up(batch_, least_rows), tasks_per_chunk(steps_ * least_rows * multiply_adds), run_rows);
    } else {
      run_steps_together(batch_ * 3 * panel<C>);
    }
    for (int64_t row = 0; row < batch_; ++row) {
      store_block(cell_before(steps_, row), units_, &of_.last_cell(row, 0), of_.last_cell.stride[1]);
    }
  }

 private:
  // The bias is the weight of one more input, which is always 1.
  void pack_weight() {
    const auto pack_recurrent = [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t gate = task % 3, p = task / 3;
        recurrent_[gate].set_transposed(p, part(of_.weight, gate * units_, units_, 0, units_), units_);
      }
    };
    parallel_for(0, 3 * recurrent_[0].panels, tasks_per_chunk(8 * panel<C> * units_), pack_recurrent);
    const auto pack_input = [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        from_input_.set_transposed(p, part(of_.weight, 0, 3 * units_, units_, inputs_), inputs_);
        C* const bias = from_input_.at(p) + inputs_ * panel<C>;
        load_block(&of_.bias(p * panel<C>), of_.bias.stride[0], from_input_.width(p), bias);
        std::fill(bias + from_input_.width(p), bias + panel<C>, C(0));
      }
    };
    parallel_for(0, from_input_.panels, tasks_per_chunk(8 * panel<C> * inputs_), pack_input);
  }

  // All steps of the rows [begin, end), on one thread.
  void run_steps(int64_t begin, int64_t end) {
    for (int64_t first = 0; first < steps_; first += window_) {
      const int64_t last = std::min(steps_, first + window_);
      load_input(first, last, begin, end);
      multiply_input(first, last, begin, end, 0, from_input_.panels);
      for (int64_t step = first; step < last; ++step) advance(step, begin, end, 0, recurrent_[0].panels);
    }
  }

  // All steps of all rows, each of them split over the threads.
  void run_steps_together(int64_t multiply_adds_per_input) {
    const int64_t ahead = window_ * inputs_;
    for (int64_t first = 0; first < steps_; first += window_) {
      const int64_t last = std::min(steps_, first + window_);
      load_input(first, last, 0, batch_);
      parallel_for(0, from_input_.panels, tasks_per_chunk(ahead * multiply_adds_per_input / 3),
                   [&](int64_t begin, int64_t end) { multiply_input(first, last, 0, batch_, begin, end); });
      for (int64_t step = first; step < last; ++step) {
        parallel_for(0, recurrent_[0].panels, tasks_per_chunk(units_ * multiply_adds_per_input),
                     [&](int64_t begin, int64_t end) { advance(step, 0, batch_, begin, end); });
      }
    }
  }

  C* input_at(int64_t step, int64_t row) const { return input_.data + (step % window_ * batch_ + row) * (inputs_ + 1); }

  void load_input(int64_t first, int64_t last, int64_t begin, int64_t end) const {
    for (int64_t step = first; step < last; ++step) {
      for (int64_t row = begin; row < end; ++row) {
        load_block(&of_.input(step, row, 0), of_.input.stride[2], inputs_, input_at(step, row));
        input_at(step, row)[inputs_] = C(1);
      }
    }
  }

  void multiply_input(int64_t first, int64_t last, int64_t begin, int64_t end, int64_t first_panel,
                      int64_t last_panel) const {
    for (int64_t p = first_panel; p < last_panel; ++p) {
      for (int64_t step = first; step < last; ++step) {
        from_input_.multiply(p, end - begin, input_at(step, begin), inputs_ + 1, gates_.at(step, begin) + p * panel<C>,
                             3 * units_);
      }
    }
  }

  const C* hidden_before(int64_t step, int64_t row) const {
    return step == 0 ? first_hidden_.data + row * units_ : hiddens_.at(step - 1, row);
  }
  const C* cell_before(int64_t step, int64_t row) const {
    return step == 0 ? first_cell_.data + row * units_ : cells_.at(step - 1, row);
  }

  // One step of some rows and of the units of some panels.
  void advance(int64_t step, int64_t begin, int64_t end, int64_t first_panel, int64_t last_panel) const {
    for (int64_t p = first_panel; p < last_panel; ++p) {
      for (int64_t gate = 0; gate < 3; ++gate) {
        recurrent_[gate].multiply(p, end - begin, hidden_before(step, begin), units_,
                                  product_.data + (3 * begin + gate) * units_ + p * panel<C>, 3 * units_);
      }
    }
    const int64_t unit = first_panel * panel<C>, count = std::min(units_, last_panel * panel<C>) - unit;
    for (int64_t row = begin; row < end; ++row) {
      const C* const product = product_.data + 3 * row * units_ + unit;
      C* const gates = gates_.at(step, row) + unit;
      with_best_isa(SequenceForwardUnits{}, count, product, product + units_, product + 2 * units_,
                    cell_before(step, row) + unit, gates, gates + units_, gates + 2 * units_,
                    hiddens_.at(step, row) + unit, cells_.at(step, row) + unit);
      for (int64_t gate = 0; gate < 3; ++gate) gates_.store(step, row, gate * units_ + unit, count);
      hiddens_.store(step, row, unit, count);
      cells_.store(step, row, unit, count);
    }
  }

  SequenceTensors<T> of_;
  int64_t steps_, batch_, inputs_, units_;
  int64_t window_;  // steps that the input's part is computed for at once
  Packed<C> recurrent_[3];
  Packed<C> from_input_;
  Computed<T> gates_, hiddens_, cells_;
  Scratch<C> first_hidden_, first_cell_;
  Scratch<C> input_, product_;
};

}  // namespace
}  // namespace opsmith::ops::lltm
