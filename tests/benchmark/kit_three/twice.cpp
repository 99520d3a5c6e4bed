#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void twice(View<const T, 1> x, View<T, 1> y) {
  for (int64_t index = 0; index < x.size[0]; ++index) y(index) = 2 * x(index);
}
