// The pointwise part of an LLTM step on the CPU, for gates.cpp, whose kernels these are, and for the whole step.
//
// gates holds input gate, output gate and candidate side by side.
#pragma once

#include "pointwise.h"

#include <opsmith/block.h>

namespace opsmith::ops::lltm {
namespace {

// Rows for about 10 us of work. A batch of 16 with 128 units stays on the calling thread.
int64_t rows_per_chunk(int64_t columns) { return columns < 8192 ? 8192 / columns : 1; }

// n units of one row; C is float or double. Outputs overlap nothing, which has to be said: otherwise there are 30 pairs
// of arrays to compare before each row, and compilers give up.
struct ForwardBlock {
  template <class C>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, const C* __restrict__ i, const C* __restrict__ o,
                                      const C* __restrict__ c, const C* __restrict__ cell, C* __restrict__ hidden,
                                      C* __restrict__ new_cell) const {
    for (int64_t k = 0; k < n; ++k) {
      const LltmState<C> next = lltm_step(i[k], o[k], c[k], cell[k]);
      hidden[k] = next.hidden;
      new_cell[k] = next.cell;
    }
  }
};

struct BackwardBlock {
  template <class C>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, const C* __restrict__ grad_hidden, const C* __restrict__ grad_new_cell,
                                      const C* __restrict__ i, const C* __restrict__ o, const C* __restrict__ c,
                                      const C* __restrict__ new_cell, C* __restrict__ grad_i, C* __restrict__ grad_o,
                                      C* __restrict__ grad_c, C* __restrict__ grad_cell) const {
    for (int64_t k = 0; k < n; ++k) {
      const LltmGradient<C> grad = lltm_step_backward(grad_hidden[k], grad_new_cell[k], i[k], o[k], c[k], new_cell[k]);
      grad_i[k] = grad.i;
      grad_o[k] = grad.o;
      grad_c[k] = grad.c;
      grad_cell[k] = grad.cell;
    }
  }
};

// Calls f(row, column, n) for blocks of up to block_size columns that cover a matrix, on several threads.
template <class F>
void for_each_block(int64_t rows, int64_t columns, const F& f) {
  if (columns == 0) return;
  parallel_for(0, rows, rows_per_chunk(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < columns; column += block_size) {
        f(row, column, columns - column < block_size ? columns - column : block_size);
      }
    }
  });
}

template <class T>
InputBlock<T> input(const View<const T, 2>& view, int64_t row, int64_t column, int64_t n) {
  return InputBlock<T>(&view(row, column), view.stride[1], n);
}

template <class T>
OutputBlock<T> output(const View<T, 2>& view, int64_t row, int64_t column, int64_t n) {
  return OutputBlock<T>(&view(row, column), view.stride[1], n);
}

}  // namespace

template <class T>
void forward_gates(View<const T, 2> gates, View<const T, 2> cell, View<T, 2> hidden, View<T, 2> new_cell) {
  const int64_t rows = cell.size[0], columns = cell.size[1];
  for_each_block(rows, columns, [&](int64_t row, int64_t column, int64_t n) {
    OutputBlock<T> out = output(hidden, row, column, n), next = output(new_cell, row, column, n);
    with_best_isa(ForwardBlock{}, n, input(gates, row, column, n).data, input(gates, row, column + columns, n).data,
                  input(gates, row, column + 2 * columns, n).data, input(cell, row, column, n).data, out.data,
                  next.data);
    out.store();
    next.store();
  });
}

template <class T>
void backward_gates(View<const T, 2> grad_hidden, View<const T, 2> grad_new_cell, View<const T, 2> gates,
                    View<const T, 2> new_cell, View<T, 2> grad_gates, View<T, 2> grad_cell) {
  const int64_t rows = new_cell.size[0], columns = new_cell.size[1];
  for_each_block(rows, columns, [&](int64_t row, int64_t column, int64_t n) {
    OutputBlock<T> grad_i = output(grad_gates, row, column, n), grad_o = output(grad_gates, row, column + columns, n);
    OutputBlock<T> grad_c = output(grad_gates, row, column + 2 * columns, n);
    OutputBlock<T> to_cell = output(grad_cell, row, column, n);
    with_best_isa(BackwardBlock{}, n, input(grad_hidden, row, column, n).data,
                  input(grad_new_cell, row, column, n).data, input(gates, row, column, n).data,
                  input(gates, row, column + columns, n).data, input(gates, row, column + 2 * columns, n).data,
                  input(new_cell, row, column, n).data, grad_i.data, grad_o.data, grad_c.data, to_cell.data);
    grad_i.store();
    grad_o.store();
    grad_c.store();
    to_cell.store();
  });
}

}  // namespace opsmith::ops::lltm
