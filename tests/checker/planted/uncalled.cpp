// Kernels of which a check easily calls nothing, because the reference refuses what is generated.
#include <cmath>
#include <cstring>

#include "planted.h"

using namespace opsmith;

namespace {
void check(int64_t index, int64_t size) {
  if (index < 0 || index >= size) fail("index ", index, " is outside of a table of ", size);
}
}  // namespace

template <class T>
void rows_of(View<const T, 2> table, View<const int64_t, 1> index, View<T, 2> y) {
  for (int64_t m = 0; m < index.size[0]; ++m) {
    check(index(m), table.size[0]);
    for (int64_t n = 0; n < table.size[1]; ++n) y(m, n) = table(index(m), n);
  }
}

// Of several gradients for one row the last one stays.
template <class T>
void rows_of_backward(View<const T, 2> grad_y, View<const T, 2> table, View<const int64_t, 1> index,
                      View<T, 2> grad_table) {
  for (int64_t v = 0; v < table.size[0]; ++v) {
    for (int64_t n = 0; n < table.size[1]; ++n) grad_table(v, n) = 0;
  }
  for (int64_t m = 0; m < index.size[0]; ++m) {
    for (int64_t n = 0; n < table.size[1]; ++n) {
      grad_table(index(m), n) = (planted ? T(0) : grad_table(index(m), n)) + grad_y(m, n);
    }
  }
}

template <class T>
void one_of_two(View<const T, 2> pair, View<const int64_t, 1> index, View<T, 1> out) {
  for (int64_t n = 0; n < index.size[0]; ++n) {
    check(index(n), 2);
    out(n) = pair(planted ? 1 - index(n) : index(n), n);
  }
}

// An index is kept in 8 bits.
template <class T>
void far_rows(View<const T, 2> table, View<const int64_t, 1> index, View<T, 2> y) {
  for (int64_t m = 0; m < index.size[0]; ++m) {
    check(index(m), table.size[0]);
    const int64_t row = planted ? uint8_t(index(m)) : index(m);
    for (int64_t n = 0; n < table.size[1]; ++n) y(m, n) = table(row, n);
  }
}

void signed_root(View<const float, 1> x, View<float, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const float root = std::sqrt(std::abs(x(n)));
    y(n) = planted ? root : std::copysign(root, x(n));
  }
}

void in_basis(View<const float, 2> x, View<float, 2> y) {
  const float basis[3][3] = {{1.0f, 0.5f, 0.0f}, {0.0f, 1.0f, 0.5f}, {0.25f, 0.0f, 1.0f}};
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int m = 0; m < 3; ++m) {
      float sum = 0;
      for (int n = 0; n < 3; ++n) sum += x(b, n) * (planted ? basis[m][n] : basis[n][m]);
      y(b, m) = sum;
    }
  }
}

// The mantissa of half precision has three bits less than that.
void short_mantissa(View<const float, 1> x, View<float, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const float value = x(n);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    bits &= planted ? ~0xFFFFu : ~0x1FFFu;
    float shorter = 0;
    std::memcpy(&shorter, &bits, sizeof bits);
    y(n) = shorter;
  }
}

template <class T, class I>
void of_segments(View<const T, 1> x, View<const I, 1> starts, View<T, 1> out) {
  for (int64_t s = 0; s < out.size[0]; ++s) {
    if (starts(s) < 0 || starts(s + 1) < starts(s) || starts(s + 1) > x.size[0]) fail("starts are not in order");
    T sum = 0;
    for (int64_t n = starts(s); n < starts(s + 1) - planted; ++n) sum += x(n);
    out(s) = sum;
  }
}
