// Products of a few rows with a large matrix on the CPU: dot products along the matrix's rows, each of which is read
// once, as it lies. Reading is all that takes time then, so several rows are read side by side.
#pragma once

#include <opsmith/product.h>

#include "../_cpu/registers.h"

namespace opsmith::ops::lltm {
namespace {

// Rows of the matrix that are multiplied together.
constexpr int64_t dot_rows = 2;

// out[m * out_row + r] = the dot product of row m of x and row r of w; rows of `columns` elements that lie side by
// side. There are `dot_rows` rows of w, or fewer, of which the last is then repeated and its product dropped.
struct MultiplyRows {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, int64_t rows, int64_t columns, const C* w, int64_t w_row,
                                      int64_t batch, const C* x, int64_t x_row, C* out, int64_t out_row) const {
    using Lanes = typename cpu::Register<bytes, C>::Lanes;
    constexpr int64_t vector = bytes / sizeof(C);
    const C* row[dot_rows];
    for (int64_t r = 0; r < dot_rows; ++r) row[r] = w + (r < rows ? r : rows - 1) * w_row;
    for (int64_t m = 0; m < batch; ++m) {
      const C* const other = x + m * x_row;
      // Two sums a row hide the 4 cycles that a multiply-add takes.
      Lanes even[dot_rows] = {}, odd[dot_rows] = {};
      int64_t k = 0;
      for (; k + 2 * vector <= columns; k += 2 * vector) {
        const Lanes first = *reinterpret_cast<const Lanes*>(other + k);
        const Lanes second = *reinterpret_cast<const Lanes*>(other + k + vector);
#pragma GCC unroll 4
        for (int64_t r = 0; r < dot_rows; ++r) {
          even[r] += *reinterpret_cast<const Lanes*>(row[r] + k) * first;
          odd[r] += *reinterpret_cast<const Lanes*>(row[r] + k + vector) * second;
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        C sum = cpu::sum_of<bytes, C>(even[r] + odd[r]);
        for (int64_t rest = k; rest < columns; ++rest) sum += row[r][rest] * other[rest];
        out[m * out_row + r] = sum;
      }
    }
  }
};

// One copy for each element type.
template <class C>
__attribute__((noinline)) void multiply_rows(int64_t rows, int64_t columns, const C* w, int64_t w_row, int64_t batch,
                                             const C* x, int64_t x_row, C* out, int64_t out_row) {
  with_vector_bytes(MultiplyRows{}, rows, columns, w, w_row, batch, x, x_row, out, out_row);
}

}  // namespace
}  // namespace opsmith::ops::lltm
