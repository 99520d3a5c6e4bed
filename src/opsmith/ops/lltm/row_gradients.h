// Both gradients of one row's product with a large matrix, on the CPU: the row's, which reads the matrix, and the
// matrix's, which is as large again. Memory is all that takes time, so they are made in one pass.
#pragma once

#include <opsmith/product.h>

#include "../_cpu/registers.h"

namespace opsmith::ops::lltm {
namespace {

// For a matrix w of `rows` rows and `count` columns: grad_x = g w and grad_w = the outer product of g and x. Each sum
// goes over the rows in their order.
struct RowGradients {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, int64_t rows, int64_t count, const C* g, const C* x,
                                      const C* w, int64_t w_row, C* grad_x, C* grad_w, int64_t grad_w_row) const {
    for (int64_t k = 0; k < count; ++k) grad_x[k] = C(0);
    int64_t row = 0;
    // Rows are often a power of two apart, where more lines than these would share few places in the cache.
    for (; row + 2 <= rows; row += 2) {
      add<2, bytes>(count, g + row, x, w + row * w_row, w_row, grad_x, grad_w + row * grad_w_row, grad_w_row);
    }
    for (; row < rows; ++row) {
      add<1, bytes>(count, g + row, x, w + row * w_row, w_row, grad_x, grad_w + row * grad_w_row, grad_w_row);
    }
  }

 private:
  template <int height, int bytes, class C>
  OPSMITH_HOST_DEVICE static void add(int64_t count, const C* g, const C* x, const C* w, int64_t w_row, C* grad_x,
                                      C* grad_w, int64_t grad_w_row) {
    using Lanes = typename cpu::Register<bytes, C>::Lanes;
    constexpr int64_t vector = bytes / sizeof(C);
    int64_t k = 0;
    for (; k + vector <= count; k += vector) {
      const Lanes other = *reinterpret_cast<const Lanes*>(x + k);
      Lanes sum = *reinterpret_cast<const Lanes*>(grad_x + k);
#pragma GCC unroll 2
      for (int r = 0; r < height; ++r) {
        sum += g[r] * *reinterpret_cast<const Lanes*>(w + r * w_row + k);
        *reinterpret_cast<Lanes*>(grad_w + r * grad_w_row + k) = g[r] * other;
      }
      *reinterpret_cast<Lanes*>(grad_x + k) = sum;
    }
    for (; k < count; ++k) {
      for (int r = 0; r < height; ++r) {
        grad_x[k] += g[r] * w[r * w_row + k];
        grad_w[r * grad_w_row + k] = g[r] * x[k];
      }
    }
  }
};

}  // namespace
}  // namespace opsmith::ops::lltm
