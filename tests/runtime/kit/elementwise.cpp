#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void axpy(View<const T, 1> bias, View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    T value = T(compute_t<T>(x.data[n]) + compute_t<T>(T(2 * compute_t<T>(y.data[n]))));
    if (bias) value = T(compute_t<T>(value) + compute_t<T>(bias.data[n]));
    out.data[n] = value;
  }
}

template <class T>
void select(View<const bool, 1> mask, View<const T, 1> x, View<const T, 1> y, View<T, 1> chosen,
            View<int64_t, 1> place) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    chosen.data[n] = mask.data[n] ? x.data[n] : y.data[n];
    place.data[n] = mask.data[n] ? 0 : 1;
  }
}

template <class T>
void scale_(View<T, 1> x, double factor) {
  for (int64_t n = 0; n < x.size[0]; ++n) x.data[n] = T(compute_t<T>(x.data[n]) * compute_t<T>(factor));
}

template <class T>
void accumulate(View<T, 1> total, View<const T, 2> x, View<int64_t, 1> count, View<T, 1> out) {
  if (total.stride[0] != 1) fail("total should be contiguous");
  for (int64_t n = 0; n < x.size[1]; ++n) {
    compute_t<T> sum = 0;
    for (int64_t b = 0; b < x.size[0]; ++b) sum += compute_t<T>(x(b, n));
    total.data[n] = T(compute_t<T>(total.data[n]) + sum);
    out(n) = x(0, n);
  }
  if (count) count(0) += x.size[0];
}

template <class T>
void zero_diagonal(View<T, 2> x) {
  for (int64_t n = 0; n < x.size[0]; ++n) x(n, n) = T(0.f);
}

template <class T>
void zero_rows(View<T, 2> x) {
  for (int64_t b = 0; b < x.size[0]; ++b) x(b, 0) = T(0.f);
}
