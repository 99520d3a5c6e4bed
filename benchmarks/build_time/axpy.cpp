#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void axpy(double a, View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
  for (int64_t i = 0; i < out.size[0]; ++i) out(i) = T(compute_t<T>(a) * x(i) + y(i));
}
