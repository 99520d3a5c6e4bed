#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void cubic(View<const T, 1> x, double scale, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> value = x(n);
    y(n) = T(compute_t<T>(scale) * value * value * value);
  }
}

template <class T>
void cubic_backward(View<const T, 1> grad_y, double scale, View<const T, 1> x, View<T, 1> grad_x) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> value = x(n);
    grad_x(n) = T(3 * compute_t<T>(scale) * value * value * compute_t<T>(grad_y(n)));
  }
}

template <class T>
void turned(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const C first = x(b, 0), second = x(b, 1);
    y(b, 0) = T(C(0.6f) * first + C(0.8f) * second);
    y(b, 1) = T(C(0.6f) * second - C(0.8f) * first);
  }
}

template <class T>
void softened(View<const T, 2> x, View<const T, 1> weight, View<T, 2> y, View<T, 1> total, View<T, 2> exps) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> value = compute_t<T>(__builtin_exp(double(compute_t<T>(x(b, n)))));
      exps(b, n) = T(value);
      y(b, n) = T(weight ? value * compute_t<T>(weight(n)) : value);
      sum += compute_t<T>(y(b, n));
    }
    total(b) = T(sum);
  }
}

template <class T>
void softened_backward(View<const T, 2> grad_y, View<const T, 1> grad_total, View<const T, 2> exps, View<const T, 2> x,
                       View<const T, 1> weight, View<T, 2> grad_x, View<T, 1> grad_weight) {
  for (int64_t n = 0; n < x.size[1]; ++n) {
    compute_t<T> sum = 0;
    for (int64_t b = 0; b < x.size[0]; ++b) {
      const compute_t<T> grad = (compute_t<T>(grad_y(b, n)) + compute_t<T>(grad_total(b))) * compute_t<T>(exps(b, n));
      grad_x(b, n) = T(weight ? grad * compute_t<T>(weight(n)) : grad);
      sum += grad;
    }
    grad_weight(n) = T(sum);
  }
}

template <class T>
void mix(View<const T, 2> x, View<const T, 2> y, View<T, 2> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> value = x(b, n);
      out(b, n) = T(value * value * compute_t<T>(__builtin_sin(double(compute_t<T>(y(b, n))))));
    }
  }
}

template <class T>
void largest(View<const T, 2> x, View<T, 1> value, View<int64_t, 1> index) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    index(b) = 0;
    for (int64_t n = 1; n < x.size[1]; ++n) {
      if (compute_t<T>(x(b, n)) > compute_t<T>(x(b, index(b)))) index(b) = n;
    }
    value(b) = x(b, index(b));
  }
}
