// An LLTM step on the CPU with matrix products of its own: for batches and states that PyTorch's are too heavy for.
//
// Every element of a result is a sum in one order, by one thread: results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <type_traits>

#include "packed.h"
#include "pointwise_cpu.h"
#include "row_gradients.h"
#include "row_products.h"

namespace opsmith::ops::lltm {
namespace {

// Where a product finds a matrix that it reads one number at a time.
template <class C>
struct Strided {
  const C* data;
  int64_t row;
  int64_t step;
};

// `rows` rows of a matrix: themselves, at any strides, or converted into `buffer`.
template <class T>
Strided<compute_t<T>> rows_of(const View<const T, 2>& matrix, int64_t first, int64_t rows, compute_t<T>* buffer) {
  const T* from = matrix.data + first * matrix.stride[0];
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    return {from, matrix.stride[0], matrix.stride[1]};
  } else {
    const int64_t columns = matrix.size[1];
    for (int64_t r = 0; r < rows; ++r) {
      load_block(from + r * matrix.stride[0], matrix.stride[1], columns, buffer + r * columns);
    }
    return {buffer, columns, 1};
  }
}

// The matrix [hidden, input], which is never stored as such.
template <class T>
struct Joined {
  View<const T, 2> hidden;
  View<const T, 2> input;

  int64_t columns() const { return hidden.size[1] + input.size[1]; }

  // Copies the columns [begin, begin + count) of a row.
  void load(int64_t row, int64_t begin, int64_t count, compute_t<T>* to) const {
    const int64_t state = hidden.size[1], from_hidden = std::clamp<int64_t>(state - begin, 0, count);
    if (from_hidden > 0) load_block(&hidden(row, begin), hidden.stride[1], from_hidden, to);
    if (from_hidden == count) return;
    load_block(&input(row, begin + from_hidden - state), input.stride[1], count - from_hidden, to + from_hidden);
  }
};

// [hidden, input] transposed, in panels of batch rows: to[column][row] within each.
template <class T>
void load_transposed(const Joined<T>& joined, int64_t batch, compute_t<T>* to) {
  using C = compute_t<T>;
  const int64_t columns = joined.columns(), full = batch / panel<C> * panel<C>;
  if (full < batch) std::fill_n(to + full * columns, panel<C> * columns, C(0));
  Scratch<C> row(columns);
  for (int64_t m = 0; m < batch; ++m) {
    joined.load(m, 0, columns, row.data);
    C* const first = to + m / panel<C> * panel<C> * columns + m % panel<C>;
    for (int64_t k = 0; k < columns; ++k) first[k * panel<C>] = row.data[k];
  }
}

// gates = [hidden, input] weight^T + bias. The batch goes along the vectors, so that the weight, the largest matrix, is
// read as it lies: transposing it would cost as much as the product.
template <class T>
void multiply_gates(const Joined<T>& joined, View<const T, 2> weight, View<const T, 1> bias, View<T, 2> gates) {
  using C = compute_t<T>;
  const int64_t batch = gates.size[0], rows = gates.size[1], columns = joined.columns();
  Scratch<C> transposed(divide_up(batch, panel<C>) * panel<C> * columns);
  load_transposed(joined, batch, transposed.data);
  const auto run = [&](int64_t begin, int64_t end) {
    Scratch<C> converted(std::is_same_v<T, C> ? 0 : row_group * columns);
    alignas(64) C product[row_group * panel<C>];
    C offset[row_group];
    for (int64_t first = begin * row_group; first < std::min(rows, end * row_group); first += row_group) {
      const int64_t height = std::min(row_group, rows - first);
      const Strided<C> w = rows_of(weight, first, height, converted.data);
      load_block(&bias(first), bias.stride[0], height, offset);
      for (int64_t m = 0; m < batch; m += panel<C>) {
        const int64_t width = std::min(panel<C>, batch - m);
        multiply_panel(height, width, columns, w.data, w.row, w.step, transposed.data + m * columns, panel<C>, product,
                       panel<C>);
        for (int64_t c = 0; c < width; ++c) {
          T* const row = &gates(m + c, first);
          for (int64_t r = 0; r < height; ++r) row[r] = static_cast<T>(product[r * panel<C> + c] + offset[r]);
        }
      }
    }
  };
  parallel_for(0, divide_up(rows, row_group), tasks_per_chunk(row_group * columns * batch), run);
}

// The same for a few rows of a batch, which fill no vector: the vectors go along the weight's rows.
template <class T>
void multiply_few_gates(const Joined<T>& joined, View<const T, 2> weight, View<const T, 1> bias, View<T, 2> gates) {
  using C = compute_t<T>;
  const int64_t batch = gates.size[0], rows = gates.size[1], columns = joined.columns();
  Scratch<C> x(batch * columns);
  for (int64_t m = 0; m < batch; ++m) joined.load(m, 0, columns, x.data + m * columns);
  const auto run = [&](int64_t begin, int64_t end) {
    const bool in_place = is_direct<T>(weight.stride[1]);
    Scratch<C> converted(in_place ? 0 : dot_rows * columns), product(batch * dot_rows);
    C offset[dot_rows];
    for (int64_t first = begin * dot_rows; first < std::min(rows, end * dot_rows); first += dot_rows) {
      const int64_t height = std::min(dot_rows, rows - first);
      Strided<C> w = {converted.data, columns, 1};
      if constexpr (std::is_same_v<T, C>) {
        if (in_place) w = {&weight(first, 0), weight.stride[0], 1};
      }
      for (int64_t r = 0; !in_place && r < height; ++r) {
        load_block(&weight(first + r, 0), weight.stride[1], columns, converted.data + r * columns);
      }
      multiply_rows(height, columns, w.data, w.row, batch, x.data, columns, product.data, dot_rows);
      load_block(&bias(first), bias.stride[0], height, offset);
      for (int64_t m = 0; m < batch; ++m) {
        for (int64_t r = 0; r < height; ++r) {
          gates(m, first + r) = static_cast<T>(product.data[m * dot_rows + r] + offset[r]);
        }
      }
    }
  };
  // Some 10 us of reading.
  constexpr int64_t weights_in_chunk = int64_t{1} << 18;
  parallel_for(0, divide_up(rows, dot_rows), 1 + weights_in_chunk / (dot_rows * columns), run);
}

template <class T>
void fused_forward(bool few_rows, View<const T, 2> input, View<const T, 2> hidden, View<const T, 2> cell,
                   View<const T, 2> weight, View<const T, 1> bias, View<T, 2> new_hidden, View<T, 2> new_cell,
                   View<T, 2> gates) {
  const Joined<T> joined{hidden, input};
  if (few_rows) {
    multiply_few_gates(joined, weight, bias, gates);
  } else {
    multiply_gates(joined, weight, bias, gates);
  }
  forward_gates<T>(gates, cell, new_hidden, new_cell);
}

template <class T>
struct CellGradients {
  View<T, 2> input;
  View<T, 2> hidden;
  View<T, 2> cell;
  View<T, 2> weight;
  View<T, 1> bias;
};

// What the products of a backward read: the gates' gradients [B, 3*S] with rows `stride` apart, and [hidden, input] in
// panels of columns.
template <class T>
struct BackwardOperands {
  Joined<T> joined;
  View<const T, 2> weight;
  const compute_t<T>* grad_gates;
  int64_t stride;
  int64_t batch;
};

// One panel of columns of the gradient of [hidden, input]: grad_gates times those columns of the weight.
template <class T>
void multiply_grad_joined(const BackwardOperands<T>& from, int64_t begin, int64_t width, const CellGradients<T>& to,
                          compute_t<T>* slab) {
  using C = compute_t<T>;
  const int64_t steps = from.weight.size[0], state = to.hidden.size[1];
  const C* columns = slab;
  int64_t step = panel<C>;
  bool in_place = false;
  if constexpr (std::is_same_v<T, C>) {
    // Rows that lie a power of two apart share few places in the cache, so a slab that is read often is better copied.
    in_place = from.weight.stride[1] == 1 && width == panel<C> && from.batch <= row_group;
    if (in_place) columns = &from.weight(0, begin), step = from.weight.stride[0];
  }
  if (!in_place) {
    for (int64_t n = 0; n < steps; ++n) {
      load_block(&from.weight(n, begin), from.weight.stride[1], width, slab + n * panel<C>);
      std::fill(slab + n * panel<C> + width, slab + (n + 1) * panel<C>, C(0));
    }
  }
  alignas(64) C product[row_group * panel<C>];
  const int64_t to_hidden = std::clamp<int64_t>(state - begin, 0, width);
  for (int64_t m = 0; m < from.batch; m += row_group) {
    const int64_t height = std::min(row_group, from.batch - m);
    multiply_panel(height, width, steps, from.grad_gates + m * from.stride, from.stride, int64_t{1}, columns, step,
                   product, panel<C>);
    for (int64_t r = 0; r < height; ++r) {
      const C* const row = product + r * panel<C>;
      if (to_hidden > 0) store_block(row, to_hidden, &to.hidden(m + r, begin), int64_t{1});
      if (to_hidden < width) {
        store_block(row + to_hidden, width - to_hidden, &to.input(m + r, begin + to_hidden - state), int64_t{1});
      }
    }
  }
}

// One panel of columns of the weight's gradient: grad_gates^T times those columns of [hidden, input].
template <class T>
void multiply_grad_weight(const BackwardOperands<T>& from, int64_t begin, int64_t width, View<T, 2> grad_weight,
                          compute_t<T>* slab) {
  using C = compute_t<T>;
  for (int64_t m = 0; m < from.batch; ++m) {
    from.joined.load(m, begin, width, slab + m * panel<C>);
    std::fill(slab + m * panel<C> + width, slab + (m + 1) * panel<C>, C(0));
  }
  const int64_t rows = grad_weight.size[0];
  if constexpr (std::is_same_v<T, C>) {
    multiply_panel(rows, width, from.batch, from.grad_gates, int64_t{1}, from.stride, slab, panel<C>,
                   &grad_weight(0, begin), grad_weight.stride[0]);
  } else {
    alignas(64) C product[row_group * panel<C>];
    for (int64_t first = 0; first < rows; first += row_group) {
      const int64_t height = std::min(row_group, rows - first);
      multiply_panel(height, width, from.batch, from.grad_gates + first, int64_t{1}, from.stride, slab, panel<C>,
                     product, panel<C>);
      for (int64_t r = 0; r < height; ++r) {
        store_block(product + r * panel<C>, width, &grad_weight(first + r, begin), int64_t{1});
      }
    }
  }
}

template <class T>
void sum_grad_bias(const BackwardOperands<T>& from, View<T, 1> grad_bias) {
  using C = compute_t<T>;
  const int64_t columns = grad_bias.size[0];
  Scratch<C> sum(columns);
  std::fill_n(sum.data, columns, C(0));
  for (int64_t m = 0; m < from.batch; ++m) {
    const C* const row = from.grad_gates + m * from.stride;
    for (int64_t n = 0; n < columns; ++n) sum.data[n] += row[n];
  }
  store_block(sum.data, columns, grad_bias.data, int64_t{1});
}

template <class T>
void fused_backward(View<const T, 2> grad_new_hidden, View<const T, 2> grad_new_cell, View<const T, 2> input,
                    View<const T, 2> hidden, View<const T, 2> weight, View<const T, 2> gates, View<const T, 2> new_cell,
                    const CellGradients<T>& to) {
  using C = compute_t<T>;
  const int64_t batch = gates.size[0], rows = gates.size[1], columns = weight.size[1];
  // A cache line more than the rows need, lest all of them start in one set of the cache.
  const int64_t stride = divide_up(rows, 16) * 16 + 16;
  Scratch<T> grad_gates(batch * stride);
  backward_gates<T>(grad_new_hidden, grad_new_cell, gates, new_cell, {grad_gates.data, {batch, rows}, {stride, 1}},
                    to.cell);
  constexpr bool is_stored_wide = std::is_same_v<T, C>;
  Scratch<C> widened(is_stored_wide ? 0 : batch * stride);
  BackwardOperands<T> from{{hidden, input}, weight, widened.data, stride, batch};
  if constexpr (is_stored_wide) {
    from.grad_gates = grad_gates.data;
  } else {
    for (int64_t m = 0; m < batch; ++m) load_block(grad_gates.data + m * stride, 1, rows, widened.data + m * stride);
  }
  // A task makes a panel of columns of one of the two gradients, which are the same work: one fork of the threads is
  // enough, and an odd number of panels is no reason for one of two threads to wait.
  const auto run = [&](int64_t begin, int64_t end) {
    Scratch<C> slab(std::max(rows, batch) * panel<C>);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t c = task / 2 * panel<C>, width = std::min(panel<C>, columns - c);
      if (task % 2 == 0) {
        multiply_grad_joined(from, c, width, to, slab.data);
      } else {
        multiply_grad_weight(from, c, width, to.weight, slab.data);
      }
    }
  };
  parallel_for(0, 2 * divide_up(columns, panel<C>), tasks_per_chunk(panel<C> * rows * batch), run);
  sum_grad_bias(from, to.bias);
}

// The same for a batch of one, whose numbers lie in memory as they are computed with.
template <class T>
void backward_of_one(View<const T, 2> grad_new_hidden, View<const T, 2> grad_new_cell, View<const T, 2> input,
                     View<const T, 2> hidden, View<const T, 2> weight, View<const T, 2> gates,
                     View<const T, 2> new_cell, const CellGradients<T>& to) {
  const int64_t rows = gates.size[1], columns = weight.size[1], state = to.hidden.size[1];
  backward_gates<T>(grad_new_hidden, grad_new_cell, gates, new_cell, {to.bias.data, {1, rows}, {rows, 1}}, to.cell);
  // Threads have rows of their own, and so pages of their own, which may be new. How many rows a block has is fixed:
  // their sums are added up in the same order whoever made them.
  constexpr int64_t rows_in_block = 64, numbers_in_chunk = int64_t{1} << 17;
  const int64_t blocks = divide_up(rows, rows_in_block);
  Scratch<T> joined(columns), sums(blocks * columns);
  Joined<T>{hidden, input}.load(0, 0, columns, joined.data);
  parallel_for(0, blocks, 1 + numbers_in_chunk / (rows_in_block * columns), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * rows_in_block;
      with_vector_bytes(RowGradients{}, std::min(rows_in_block, rows - first), columns,
                        static_cast<const T*>(to.bias.data + first), static_cast<const T*>(joined.data),
                        &weight(first, 0), weight.stride[0], sums.data + block * columns, &to.weight(first, 0),
                        to.weight.stride[0]);
    }
  });
  for (int64_t block = 1; block < blocks; ++block) {
    for (int64_t k = 0; k < columns; ++k) sums.data[k] += sums.data[block * columns + k];
  }
  std::copy_n(sums.data, state, to.hidden.data);
  std::copy_n(sums.data + state, columns - state, to.input.data);
}

}  // namespace
}  // namespace opsmith::ops::lltm
