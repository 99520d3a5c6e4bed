#include <opsmith/kernel.h>

using namespace opsmith;

void twice(View<const float, 1> x, View<float, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = 2 * x(n);
}

void gated(View<const float, 1> x, View<const float, 1> gate, View<float, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = gate(n) > 0 ? x(n) : 0;
}
