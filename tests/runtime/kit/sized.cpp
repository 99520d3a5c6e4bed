#include <opsmith/kernel.h>

using namespace opsmith;

static void clear(View<float, 1> out) {
  for (int64_t n = 0; n < out.size[0]; ++n) out(n) = 0;
}

void quotient(View<const float, 1>, int64_t, int64_t, View<float, 1> out) { clear(out); }
void remainder(View<const float, 1>, int64_t, int64_t, View<float, 1> out) { clear(out); }
void product(View<const float, 1>, int64_t, int64_t, View<float, 1> out) { clear(out); }
void difference(View<const float, 1>, int64_t, int64_t, View<float, 1> out) { clear(out); }
void solved(View<const float, 1>, int64_t, int64_t, View<float, 1> out) { clear(out); }
void compared(View<const float, 1>, View<const float, 1>, int64_t, int64_t, View<float, 1> out) { clear(out); }
