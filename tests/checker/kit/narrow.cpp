#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void twice(View<const T, 2> x, View<T, 2> out) {
  for (int64_t i = 0; i < x.size[0]; ++i) {
    for (int64_t j = 0; j < x.size[1]; ++j) out(i, j) = T(2 * compute_t<T>(x.data[i * x.stride[0] + j * x.stride[1]]));
  }
}

template <class T>
void twice_narrow(View<const T, 2> x, View<T, 2> out) {
  for (int i = 0; i < x.size[0]; ++i) {
    for (int j = 0; j < x.size[1]; ++j) {
      const int index = int(i * x.stride[0] + j * x.stride[1]);
      out(i, j) = T(2 * compute_t<T>(x.data[index]));
    }
  }
}

template <class T>
void twice_dense(View<const T, 2> x, View<T, 2> out) {
  for (int64_t i = 0; i < x.size[0]; ++i) {
    for (int64_t j = 0; j < x.size[1]; ++j) out(i, j) = T(2 * compute_t<T>(x.data[i * x.size[1] + j]));
  }
}

void negated(View<const int8_t, 1> x, View<int8_t, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = int8_t(-x(n));
}

void negated_narrow(View<const int8_t, 1> x, View<int8_t, 1> out) {
  const int size = int(x.size[0]);
  for (int n = 0; n < size; ++n) out(n) = int8_t(-x(n));
}
