#include <opsmith/kernel.h>

using namespace opsmith;

void shifted(View<const float, 1> x, View<float, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = x(n + 1);  // one too far
}

void bits(View<const float, 1> x, View<float, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const int place = static_cast<int>(30 + n % 5);
    const int bit = 1 << place;  // up to 34
    out(n) = x(n) + (bit == 7 ? 1 : 0);
  }
}

void raced(View<const float, 1> x, View<float, 0> out) {
  volatile double total = 0;
  parallel_for(0, x.size[0], 512, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) total = total + double(x(n));  // by all threads
  });
  out() = float(total);
}

void copied(View<const float, 1> x, View<float, 1> out) {
  parallel_for(0, x.size[0], 512, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) out(n) = x(n);
  });
}

void raced_for_the_same(View<const float, 1> x, View<float, 1> out) {
  bool is_done = false;
  parallel_for(0, x.size[0], 512, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) out(n) = x(n);
    *static_cast<volatile bool*>(&is_done) = true;  // by all threads, and nobody asks for it
  });
}
