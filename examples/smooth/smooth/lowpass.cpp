// lowpass on the CPU: each row is a chain of dependent steps, so rows go side by side on several threads.
#include <opsmith/kernel.h>

using namespace opsmith;

namespace {

// Rows for about 10 us of work, at 2 ns for a step.
int64_t rows_per_chunk(int64_t steps) { return steps < 4096 ? 4096 / (steps + 1) + 1 : 1; }

}  // namespace

template <class T>
void lowpass(View<const T, 2> x, View<const T, 1> decay, View<T, 2> y) {
  using C = compute_t<T>;
  const int64_t steps = x.size[1];
  parallel_for(0, x.size[0], rows_per_chunk(steps), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const C a = decay(row);
      C state = steps > 0 ? C(x(row, 0)) : C(0);
      for (int64_t n = 0; n < steps; ++n) {
        // The state stays in full precision from step to step; only what is stored is rounded.
        if (n > 0) state = a * state + (C(1) - a) * C(x(row, n));
        y(row, n) = T(state);
      }
    }
  });
}

template <class T>
void lowpass_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> decay, View<const T, 2> y,
                      View<T, 2> grad_x, View<T, 1> grad_decay) {
  using C = compute_t<T>;
  const int64_t steps = x.size[1];
  parallel_for(0, x.size[0], rows_per_chunk(steps), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const C a = decay(row);
      C carry = 0, sum = 0;
      for (int64_t n = steps - 1; n >= 0; --n) {
        carry = C(grad_y(row, n)) + a * carry;
        grad_x(row, n) = T(n > 0 ? (C(1) - a) * carry : carry);
        if (n > 0) sum += carry * (C(y(row, n - 1)) - C(x(row, n)));
      }
      grad_decay(row) = T(sum);
    }
  });
}
