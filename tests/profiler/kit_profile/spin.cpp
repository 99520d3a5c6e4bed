// Kernels that wait by the clock.
#include <opsmith/kernel.h>

#include <chrono>

using namespace opsmith;

static void wait(int64_t microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

template <class T>
void spin(View<const T, 1> x, int64_t microseconds, View<T, 1> y) {
  wait(microseconds);
  for (int64_t index = 0; index < x.size[0]; ++index) y(index) = x(index);
}

template <class T>
void spin_backward(View<const T, 1> grad_out, int64_t microseconds, View<T, 1> grad_x) {
  wait(microseconds);
  for (int64_t index = 0; index < grad_out.size[0]; ++index) grad_x(index) = grad_out(index);
}

template <class T>
void rows(View<const T, 2> x, View<T, 2> y) {
  for (int64_t row = 0; row < x.size[0]; ++row) {
    for (int64_t column = 0; column < x.size[1]; ++column) y(row, column) = x(row, column);
  }
}

template <class I>
void add_one(View<I, 1> x, List<int64_t> by, int64_t times) {
  for (int64_t index = 0; index < x.size[0]; ++index) x(index) += static_cast<I>(by[0] * times);
}
