// blend on the CPU.
#include "blend.h"

using namespace opsmith;

template <class T>
void blend(View<const T, 1> x, View<const T, 1> y, View<const T, 1> low, View<const T, 1> high, int64_t times,
           int64_t offset, double weight, double bias, View<T, 1> out) {
  const Blend f{times, offset, weight, bias};
  for (int64_t i = 0; i < out.size[0]; ++i) {
    using C = compute_t<T>;
    out(i) = T(f(C(x(i)), C(y(i)), C(low(i)), C(high(i))));
  }
}
