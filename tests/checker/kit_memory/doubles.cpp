#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void right(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(2 * compute_t<T>(x(n)));
}

template <class T>
void without_tail(View<const T, 1> x, View<T, 1> y) {
  const int64_t whole = x.size[0] - x.size[0] % 8;
  for (int64_t n = 0; n < whole; ++n) y(n) = T(2 * compute_t<T>(x(n)));
}

template <class T>
void adds_to_it(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(y(n)) + 2 * compute_t<T>(x(n)));
}

template <class T>
void one_behind(View<const T, 1> x, View<T, 1> y) {
  right(x, y);
  if (x.size[0] > 0) y.data[x.size[0]] = T(1.0f);
}

template <class T>
void one_before(View<const T, 1> x, View<T, 1> y) {
  right(x, y);
  if (x.size[0] > 0) y.data[-1] = T(1.0f);
}

template <class T>
void next_one(View<const T, 1> x, View<T, 1> y) {
  // Nothing comes of the neighbour, unless it is NaN or infinite.
  for (int64_t n = 0; n < x.size[0]; ++n)
    y(n) = T(2 * compute_t<T>(x(n)) + 0 * compute_t<T>(x.data[n * x.stride[0] + 1]));
}

template <class T>
void clears_input(View<const T, 1> x, View<T, 1> y) {
  right(x, y);
  if (x.size[0] > 0) const_cast<T&>(x(x.size[0] - 1)) = T(0.0f);
}

template <class T>
void no_strides(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(2 * compute_t<T>(x.data[n]));
}

template <class T>
void in_place_(View<T, 1> x) {
  for (int64_t n = 0; n < x.size[0]; ++n) x(n) = T(2 * compute_t<T>(x(n)));
}

template <class T>
void between_(View<T, 1> x) {
  in_place_(x);
  if (x.size[0] > 1 && x.stride[0] > 1) x.data[1] = T(0.0f);
}

template <class T>
void slope(View<const T, 1> grad_y, View<T, 1> grad_x) {
  for (int64_t n = 1; n < grad_y.size[0]; ++n) grad_x(n) = T(2 * compute_t<T>(grad_y(n)));
}
