#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void right(View<const T, 2> x, double factor, View<T, 2> y) {
  for (int64_t i = 0; i < x.size[0]; ++i)
    for (int64_t j = 0; j < x.size[1]; ++j) y(i, j) = T(compute_t<T>(x(i, j)) * compute_t<T>(factor));
}

template <class T>
void wrong(View<const T, 2> x, View<T, 2> y) {
  for (int64_t i = 0; i < x.size[0]; ++i)
    for (int64_t j = 0; j < x.size[1]; ++j) y(i, j) = T(compute_t<T>(x(i, j)) + compute_t<T>(1.25));
}

// Right below 8 elements, where there is no whole block.
template <class T>
void wrong_tail(View<const T, 1> x, View<T, 1> y) {
  const int64_t blocks = x.size[0] / 8 * 8;
  for (int64_t i = 0; i < x.size[0]; ++i) {
    const bool forgotten = blocks > 0 && i >= blocks;
    y(i) = T(compute_t<T>(x(i)) + compute_t<T>(forgotten ? 0 : 1));
  }
}

template <class T>
void crashing(View<const T, 1> x, View<T, 1> y) {
  for (int64_t i = 0; i < x.size[0]; ++i) y(i) = T(-compute_t<T>(x(i)));
  volatile int* volatile nowhere = nullptr;
  if (x.size[0] >= 64) *nowhere = 1;
}

template <class T>
void hanging(View<const T, 1> x, View<T, 1> y) {
  for (int64_t i = 0; i < x.size[0]; ++i) {
    volatile compute_t<T> value = compute_t<T>(x(i));
    while (value != value) value = compute_t<T>(x(i));
    y(i) = T(2 * value);
  }
}

template <class T>
void running_sum(View<const T, 2> x, View<T, 2> y) {
  for (int64_t i = 0; i < x.size[0]; ++i) {
    compute_t<T> sum = 0;
    for (int64_t j = 0; j < x.size[1]; ++j) y(i, j) = T(sum += compute_t<T>(x(i, j)));
  }
}
