#include "helpers.h"

#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void shifted(View<const T, 1> x, double shift, View<T, 1> y) {
  for (int64_t i = 0; i < x.size[0]; ++i) {
    const compute_t<T> sum = compute_t<T>(x(i)) + compute_t<T>(shift);
    y(i) = T(positive(sum));
  }
}

template <class T>
void shifted_backward(View<const T, 1> grad_y, View<const T, 1> y, View<T, 1> grad_x) {
  for (int64_t i = 0; i < y.size[0]; ++i) grad_x(i) = is_positive(y(i)) ? grad_y(i) : T(0);
}

template <class T>
void doubled(View<const T, 1> x, View<T, 1> y) {
  for (int64_t i = 0; i < x.size[0]; ++i) y(i) = T(2 * compute_t<T>(x(i)));
}
