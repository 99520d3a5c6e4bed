// The CPU's matrix products of a perceptron, by the tiles of product.h, and the sums beside them.
//
// Every element of a result is a sum in one order, by one thread: results do not depend on the number of threads.
#pragma once

#include <opsmith/block.h>
#include <opsmith/kernel.h>
#include <opsmith/product.h>

#include <algorithm>
#include <type_traits>

namespace {

using namespace opsmith;

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A left-hand matrix in the type to compute in: element (r, k) is data[r * row + k * step].
template <class C>
struct Factor {
  const C* data;
  int64_t row;
  int64_t step;

  Factor transposed() const { return {data, step, row}; }
};

// A matrix as a left-hand one: itself, at any strides, or converted into `buffer`, which has room for its elements.
template <class T>
Factor<compute_t<T>> factor_of(const View<const T, 2>& matrix, compute_t<T>* buffer) {
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    return {matrix.data, matrix.stride[0], matrix.stride[1]};
  } else {
    const int64_t columns = matrix.size[1];
    for (int64_t r = 0; r < matrix.size[0]; ++r) {
      load_block(matrix.data + r * matrix.stride[0], matrix.stride[1], columns, buffer + r * columns);
    }
    return {buffer, columns, 1};
  }
}

// Elements of `buffer` above.
template <class T>
int64_t converted_size(const View<const T, 2>& matrix) {
  return std::is_same_v<T, compute_t<T>> ? 0 : matrix.numel();
}

template <class T>
View<const T, 2> transposed(const View<const T, 2>& matrix) {
  return {matrix.data, {matrix.size[1], matrix.size[0]}, {matrix.stride[1], matrix.stride[0]}};
}

// slab[k][c] = matrix(k, begin + c) for a whole panel of columns, the missing ones 0.
template <class T>
void load_panel(const View<const T, 2>& matrix, int64_t begin, int64_t width, compute_t<T>* slab) {
  using C = compute_t<T>;
  const int64_t steps = matrix.size[0];
  if (matrix.stride[1] == 1 || matrix.stride[0] != 1) {
    for (int64_t k = 0; k < steps; ++k) {
      load_block(&matrix(k, begin), matrix.stride[1], width, slab + k * panel<C>);
      std::fill(slab + k * panel<C> + width, slab + (k + 1) * panel<C>, C(0));
    }
    return;
  }
  // A transposed matrix: its columns are what lies together. A few of them at a time, as a line of the cache has
  // places.
  constexpr int64_t lines = 16;
  C column[lines][panel<C>];
  for (int64_t first = 0; first < steps; first += panel<C>) {
    const int64_t count = std::min(panel<C>, steps - first);
    for (int64_t c = 0; c < panel<C>; c += lines) {
      for (int64_t i = 0; i < lines; ++i) {
        if (c + i < width) {
          load_block(&matrix(first, begin + c + i), int64_t{1}, count, column[i]);
        } else {
          std::fill_n(column[i], count, C(0));
        }
      }
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t i = 0; i < lines; ++i) slab[(first + k) * panel<C> + c + i] = column[i][k];
      }
    }
  }
}

// Rows of a result that one task computes: a multiple of every tile's height.
constexpr int64_t row_group = 48;

// Tasks for about 10 us of work, at the 100 GFLOP/s of a core.
int64_t tasks_per_chunk(int64_t multiply_adds_per_task) {
  return 1 + (int64_t{1} << 19) / (multiply_adds_per_task + 1);
}

// The product of a [rows K] and b [K N]. finish(row, column, count, sums) gets the results, `count` neighbours of a row
// at a time, and may change them in place.
template <class T, class Finish>
void multiply(const Factor<compute_t<T>>& a, int64_t rows, const View<const T, 2>& b, const Finish& finish) {
  using C = compute_t<T>;
  const int64_t steps = b.size[0], columns = b.size[1];
  const int64_t groups = divide_up(rows, row_group), panels = divide_up(columns, panel<C>);
  const auto run = [&](int64_t begin, int64_t end) {
    Scratch<C> slab(steps * panel<C>);
    alignas(64) C product[row_group * panel<C>];
    int64_t loaded = -1;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % groups * row_group, height = std::min(row_group, rows - first);
      const int64_t column = task / groups * panel<C>, width = std::min(panel<C>, columns - column);
      const C* right = slab.data;
      int64_t right_step = panel<C>;
      bool in_place = false;
      if constexpr (std::is_same_v<T, C>) {
        // Rows that lie a power of two apart share few places in the cache: what is read often is better copied.
        in_place = b.stride[1] == 1 && width == panel<C> && rows <= row_group;
        if (in_place) right = &b(0, column), right_step = b.stride[0];
      }
      if (!in_place && loaded != column) load_panel(b, column, width, slab.data), loaded = column;
      multiply_panel(height, width, steps, a.data + first * a.row, a.row, a.step, right, right_step, product, panel<C>);
      for (int64_t r = 0; r < height; ++r) finish(first + r, column, width, product + r * panel<C>);
    }
  };
  parallel_for(0, groups * panels, tasks_per_chunk(row_group * panel<C> * steps), run);
}

// The same, stored as it comes.
template <class T>
void multiply_into(const Factor<compute_t<T>>& a, const View<const T, 2>& b, const View<T, 2>& out) {
  multiply(a, out.size[0], b, [&](int64_t row, int64_t column, int64_t count, const compute_t<T>* sums) {
    store_block(sums, count, &out(row, column), out.stride[1]);
  });
}

// The sums of a matrix's columns.
template <class T>
void sum_columns(const Factor<compute_t<T>>& matrix, int64_t rows, const View<T, 1>& out) {
  using C = compute_t<T>;
  parallel_for(
      0, divide_up(out.size[0], block_size), 1 + 65536 / (rows * block_size + 1), [&](int64_t begin, int64_t end) {
        for (int64_t first = begin * block_size; first < std::min(out.size[0], end * block_size); first += block_size) {
          const int64_t count = std::min(block_size, out.size[0] - first);
          C sum[block_size] = {};
          for (int64_t r = 0; r < rows; ++r) {
            const C* const row = matrix.data + r * matrix.row + first * matrix.step;
            if (matrix.step == 1) {
              with_best_isa(
                  [](int64_t count, const C* __restrict__ row, C* __restrict__ sum) {
                    for (int64_t k = 0; k < count; ++k) sum[k] += row[k];
                  },
                  count, row, sum);
            } else {
              for (int64_t k = 0; k < count; ++k) sum[k] += row[k * matrix.step];
            }
          }
          store_block(sum, count, &out(first), out.stride[0]);
        }
      });
}

}  // namespace
