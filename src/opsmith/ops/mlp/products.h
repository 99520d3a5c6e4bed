// The CPU's matrix products of a perceptron, by the tiles of product.h, and the sums beside them.
//
// Every element of a result is a sum in one order, by one thread: results do not depend on the number of threads.
#pragma once

#include <opsmith/block.h>
#include <opsmith/kernel.h>
#include <opsmith/product.h>

#include <algorithm>
#include <type_traits>

namespace opsmith::ops::mlp {
namespace {

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

// Columns of a panel that a product of `width` columns reads: whole vectors of any instruction set.
template <class C>
int64_t padded(int64_t width) {
  constexpr int64_t vector = panel<C> / 2;
  return divide_up(width, vector) * vector;
}

// to[c] = from[c] for c < count. A loop of a few rounds costs more than what it copies, so these are copies of fixed
// sizes.
template <class C>
OPSMITH_HOST_DEVICE void copy_row(const C* from, int64_t count, C* to) {
  constexpr int64_t vector = panel<C> / 2;
  for (; count >= vector; count -= vector, from += vector, to += vector) __builtin_memcpy(to, from, vector * sizeof(C));
  if constexpr (vector > 8) {
    if (count & 8) __builtin_memcpy(to, from, 8 * sizeof(C)), from += 8, to += 8;
  }
  if (count & 4) __builtin_memcpy(to, from, 4 * sizeof(C)), from += 4, to += 4;
  if (count & 2) __builtin_memcpy(to, from, 2 * sizeof(C)), from += 2, to += 2;
  if (count & 1) *to = *from;
}

// to[k * panel + c] = from[k * row + c * step] for k < steps and c < width, and 0 from there to the end of a vector.
template <class C>
__attribute__((noinline)) void copy_panel(const C* from, int64_t row, int64_t step, int64_t steps, int64_t width,
                                          C* to) {
  with_best_isa(
      [](const C* from, int64_t row, int64_t step, int64_t steps, int64_t width, int64_t end, C* to) {
        // Some rows at a time, so that a transposed matrix finds the lines of the cache that it writes to again.
        constexpr int64_t rows_at_once = 16, vector = panel<C> / 2;
        for (int64_t first = 0; first < steps; first += rows_at_once) {
          const int64_t last = std::min(steps, first + rows_at_once);
          for (int64_t k = first; k < last && width < end; ++k) {
            __builtin_memset(to + k * panel<C> + end - vector, 0, vector * sizeof(C));
          }
          if (step == 1) {
            for (int64_t k = first; k < last; ++k) copy_row(from + k * row, width, to + k * panel<C>);
          } else {
            for (int64_t c = 0; c < width; ++c) {
              for (int64_t k = first; k < last; ++k) to[k * panel<C> + c] = from[k * row + c * step];
            }
          }
        }
      },
      from, row, step, steps, width, padded<C>(width), to);
}

// slab[k][c] = matrix(k, begin + c), for a panel of columns.
template <class T>
void load_panel(const View<const T, 2>& matrix, int64_t begin, int64_t width, compute_t<T>* slab) {
  using C = compute_t<T>;
  const int64_t steps = matrix.size[0];
  if constexpr (std::is_same_v<T, C>) {
    copy_panel(&matrix(0, begin), matrix.stride[0], matrix.stride[1], steps, width, slab);
  } else if (matrix.stride[0] == 1 && matrix.stride[1] != 1) {
    // A transposed matrix: its columns are what lies together, so they are what is converted.
    alignas(64) C columns[panel<C>][block_size];
    for (int64_t first = 0; first < steps; first += block_size) {
      const int64_t count = std::min(block_size, steps - first);
      for (int64_t c = 0; c < width; ++c) load_block(&matrix(first, begin + c), int64_t{1}, count, columns[c]);
      copy_panel(columns[0], int64_t{1}, block_size, count, width, slab + first * panel<C>);
    }
  } else {
    for (int64_t k = 0; k < steps; ++k) {
      load_block(&matrix(k, begin), matrix.stride[1], width, slab + k * panel<C>);
      std::fill(slab + k * panel<C> + width, slab + k * panel<C> + padded<C>(width), C(0));
    }
  }
}

// Part of a product, in the type that it is computed in: rows from `row` on, columns from `column` on. The columns are
// whole vectors, so that no loop over them has a rest; those beyond the product's end have any value.
template <class C>
struct Part {
  int64_t row;
  int64_t rows;
  int64_t column;
  int64_t columns;
  C* data;  // the rows are `stride` apart
  int64_t stride;
};

// out = edit(a b), with a [rows K] and b [K N]. edit(part) gets each part of the product when it is still in the cache.
// Where rows of `out` are further apart than its columns need, what lies between them is written to as well.
template <class T, class Out, class Edit>
void multiply(const Factor<compute_t<T>>& a, const View<const T, 2>& b, const View<Out, 2>& out, const Edit& edit) {
  using C = compute_t<T>;
  const int64_t rows = out.size[0], steps = b.size[0], columns = b.size[1];
  const int64_t groups = divide_up(rows, row_group), panels = divide_up(columns, panel<C>);
  const auto run = [&](int64_t begin, int64_t end) {
    Scratch<C> slab(steps * panel<C>);
    alignas(64) C buffer[row_group * panel<C>];
    int64_t loaded = -1;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task % groups * row_group, column = task / groups * panel<C>;
      const int64_t width = std::min(panel<C>, columns - column);
      Part<C> part{row, std::min(row_group, rows - row), column, padded<C>(width), buffer, panel<C>};
      const C* right = slab.data;
      int64_t right_step = panel<C>;
      bool in_place = false;
      if constexpr (std::is_same_v<T, C>) {
        // Rows that lie a power of two apart share few places in the cache: what is read often is better copied.
        in_place = b.stride[1] == 1 && width == panel<C> && rows <= row_group;
        if (in_place) right = &b(0, column), right_step = b.stride[0];
      }
      if (!in_place && loaded != column) load_panel(b, column, width, slab.data), loaded = column;
      bool is_stored = false;
      if constexpr (std::is_same_v<Out, C>) {
        is_stored = column + part.columns <= out.stride[0];
        if (is_stored) part.data = &out(row, column), part.stride = out.stride[0];
      }
      multiply_panel(part.rows, part.columns, steps, a.data + row * a.row, a.row, a.step, right, right_step, part.data,
                     part.stride);
      edit(part);
      for (int64_t r = 0; r < part.rows && !is_stored; ++r) {
        if constexpr (std::is_same_v<Out, C>) {
          copy_row(buffer + r * panel<C>, width, &out(row + r, column));
        } else {
          store_block(buffer + r * panel<C>, width, &out(row + r, column), int64_t{1});
        }
      }
    }
  };
  parallel_for(0, groups * panels, tasks_per_chunk(row_group * panel<C> * steps), run);
}

template <class T>
void multiply(const Factor<compute_t<T>>& a, const View<const T, 2>& b, const View<T, 2>& out) {
  multiply(a, b, out, [](const Part<compute_t<T>>&) {});
}

// Adds the bias of each column, and takes the ReLU if there is one. `bias` is readable up to a vector's end.
template <bool has_relu, class C>
void add_bias(const Part<C>& part, const C* bias) {
  with_best_isa(
      [](const Part<C> part, const C* __restrict__ bias) {
        for (int64_t r = 0; r < part.rows; ++r) {
          C* __restrict__ const row = part.data + r * part.stride;
          for (int64_t c = 0; c < part.columns; ++c) {
            const C sum = row[c] + bias[c];
            row[c] = has_relu && sum < C(0) ? C(0) : sum;  // a NaN stays one
          }
        }
      },
      part, bias + part.column);
}

// Sets to 0 what the ReLU did not let through.
template <class T>
void mask(const Part<compute_t<T>>& part, const View<const T, 2>& hidden) {
  using C = compute_t<T>;
  const auto mask_rows = [](const Part<C> part, const C* hidden, int64_t hidden_row) {
    for (int64_t r = 0; r < part.rows; ++r) {
      C* __restrict__ const row = part.data + r * part.stride;
      const C* __restrict__ const activation = hidden + r * hidden_row;
      for (int64_t c = 0; c < part.columns; ++c) row[c] = activation[c] <= C(0) ? C(0) : row[c];
    }
  };
  const int64_t width = std::min(part.columns, hidden.size[1] - part.column);
  if constexpr (std::is_same_v<T, C>) {
    if (hidden.stride[1] == 1 && width == part.columns) {
      return with_best_isa(mask_rows, part, &hidden(part.row, part.column), hidden.stride[0]);
    }
  }
  alignas(64) C buffer[row_group * panel<C>];
  for (int64_t r = 0; r < part.rows; ++r) {
    const T* const row = &hidden(part.row + r, part.column);
    if constexpr (std::is_same_v<T, C>) {
      if (hidden.stride[1] == 1) {
        copy_row(row, width, buffer + r * panel<C>);
        continue;
      }
    }
    load_block(row, hidden.stride[1], width, buffer + r * panel<C>);
  }
  with_best_isa(mask_rows, part, static_cast<const C*>(buffer), panel<C>);
}

// The sums of a matrix's columns.
template <class T>
void sum_columns(const Factor<compute_t<T>>& matrix, int64_t rows, const View<T, 1>& out) {
  using C = compute_t<T>;
  const auto add_rows = [](int64_t rows, int64_t count, const C* data, int64_t row, int64_t step, C* __restrict__ sum) {
    constexpr int64_t vector = panel<C> / 2;
    int64_t k = 0;
    for (; step == 1 && k + vector <= count; k += vector) {
      C part[vector] = {};  // stays in registers
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < vector; ++c) part[c] += data[r * row + k + c];
      }
      __builtin_memcpy(sum + k, part, sizeof(part));
    }
    for (; k < count; ++k) {
      C part = 0;
      for (int64_t r = 0; r < rows; ++r) part += data[r * row + k * step];
      sum[k] = part;
    }
  };
  constexpr int64_t width = 128;  // columns of a task: as many as lie in some lines of the cache
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * width; first < std::min(out.size[0], end * width); first += width) {
      const int64_t count = std::min(width, out.size[0] - first);
      // Whole vectors, where the rows are far enough apart.
      const int64_t wide = matrix.step == 1 && first + padded<C>(count) <= matrix.row ? padded<C>(count) : count;
      C sum[width];
      with_best_isa(add_rows, rows, wide, matrix.data + first * matrix.step, matrix.row, matrix.step,
                    static_cast<C*>(sum));
      store_block(sum, count, &out(first), out.stride[0]);
    }
  };
  parallel_for(0, divide_up(out.size[0], width), 1 + (int64_t{1} << 17) / (rows * width + 1), run);
}

}  // namespace
}  // namespace opsmith::ops::mlp
