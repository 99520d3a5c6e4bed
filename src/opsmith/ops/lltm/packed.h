// Matrices that are packed for multiply_panel, the products of the CPU.
#pragma once

#include <algorithm>

#include <opsmith/block.h>
#include <opsmith/product.h>

namespace opsmith::ops::lltm {
namespace {

// The right-hand matrix [steps, columns] of a product, in panels of columns: at(panel)[step][column]. What the last
// panel lacks in columns is zero.
template <class C>
class Packed {
 public:
  Packed(int64_t steps, int64_t columns)
      : steps(steps), columns(columns), panels(divide_up(columns, panel<C>)), memory_(panels * steps * panel<C>) {}

  const int64_t steps;
  const int64_t columns;
  const int64_t panels;

  C* at(int64_t index) const { return memory_.data + index * steps * panel<C>; }
  int64_t width(int64_t index) const { return std::min(panel<C>, columns - index * panel<C>); }

  // Fills one row of all panels.
  template <class T>
  void set_row(int64_t step, const T* from, int64_t stride) const {
    for (int64_t p = 0; p < panels; ++p) {
      C* const to = at(p) + step * panel<C>;
      load_block(from + p * panel<C> * stride, stride, width(p), to);
      std::fill(to + width(p), to + panel<C>, C(0));
    }
  }

  // Fills the first `count` rows of a panel with the transpose of a matrix that has them as columns.
  template <class T>
  void set_transposed(int64_t index, const View<const T, 2>& from, int64_t count) const {
    Scratch<C> row(count);
    C* const to = at(index);
    for (int64_t c = 0; c < panel<C>; ++c) {
      if (c < width(index)) {
        load_block(&from(index * panel<C> + c, 0), from.stride[1], count, row.data);
      } else {
        std::fill_n(row.data, count, C(0));
      }
      for (int64_t k = 0; k < count; ++k) to[k * panel<C> + c] = row.data[k];
    }
  }

  // out = a times one panel; a has `rows` rows of `steps` numbers that lie one after another.
  void multiply(int64_t index, int64_t rows, const C* a, int64_t a_row, C* out, int64_t out_row) const {
    multiply_panel(rows, width(index), steps, a, a_row, int64_t{1}, at(index), panel<C>, out, out_row);
  }

 private:
  Scratch<C> memory_;
};

// Part of a matrix: `rows` rows from `row` on, `columns` columns from `column` on.
template <class T>
View<T, 2> part(const View<T, 2>& matrix, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return {matrix.data + row * matrix.stride[0] + column * matrix.stride[1],
          {rows, columns},
          {matrix.stride[0], matrix.stride[1]}};
}

}  // namespace
}  // namespace opsmith::ops::lltm
