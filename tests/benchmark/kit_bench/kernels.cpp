#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void twice(View<const T, 2> x, View<T, 2> y) {
  for (int64_t row = 0; row < x.size[0]; ++row) {
    for (int64_t column = 0; column < x.size[1]; ++column) y(row, column) = T(2 * compute_t<T>(x(row, column)));
  }
}

template <class T>
void off(View<const T, 2> x, View<T, 2> y) {
  for (int64_t row = 0; row < x.size[0]; ++row) {
    for (int64_t column = 0; column < x.size[1]; ++column)
      y(row, column) = T(compute_t<T>(x(row, column)) + compute_t<T>(1.25));
  }
}
