#include <opsmith/kernel.h>

using namespace opsmith;

namespace {

template <class T>
void copy_row(View<const T, 2> table, int64_t row, View<T, 2> out, int64_t k) {
  for (int64_t n = 0; n < out.size[1]; ++n) out(k, n) = table(row, n);
}

template <class T>
void times_remainder(View<const T, 1> x, int64_t step, View<T, 1> out) {
  for (int64_t n = 0; n < out.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) * compute_t<T>(n % step));
}

template <class T>
void doubled(View<const T, 1> x, int64_t steps, View<T, 1> out) {
  compute_t<T> factor = 1;
  for (volatile int64_t step = 0; step != steps; step = step + 1) factor *= 2;
  for (int64_t n = 0; n < out.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) * factor);
}

}  // namespace

template <class T>
void rows_on_trust(View<const T, 2> table, View<const int64_t, 1> index, View<T, 2> out) {
  for (int64_t k = 0; k < index.size[0]; ++k) copy_row(table, index(k), out, k);
}

template <class T>
void rows(View<const T, 2> table, View<const int64_t, 1> index, View<T, 2> out) {
  for (int64_t k = 0; k < index.size[0]; ++k) {
    if (index(k) < 0 || index(k) >= table.size[0]) fail("there is no row ", index(k));
    copy_row(table, index(k), out, k);
  }
}

template <class T>
void weighted_on_trust(View<const T, 1> x, View<const T, 1> weight, View<T, 1> out) {
  compute_t<T> sum = 0;
  for (int64_t k = 0; k < weight.size[0]; ++k) sum += compute_t<T>(weight(k));
  for (int64_t n = 0; n < out.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) * sum);
}

template <class T>
void every_on_trust(View<const T, 1> x, int64_t step, View<T, 1> out) {
  times_remainder(x, step, out);
}

template <class T>
void every(View<const T, 1> x, int64_t step, View<T, 1> out) {
  if (step <= 0) fail("the step must be positive");
  times_remainder(x, step, out);
}

template <class T>
void until_on_trust(View<const T, 1> x, int64_t steps, View<T, 1> out) {
  doubled(x, steps, out);
}

template <class T>
void until(View<const T, 1> x, int64_t steps, View<T, 1> out) {
  if (steps < 0 || steps >= 64) fail("the number of steps must be from 0 to 63");
  doubled(x, steps, out);
}

template <class T>
void keeps_on_trust(View<const T, 1> x, bool, View<T, 1> y, View<T, 1> doubled) {
  for (int64_t n = 0; n < y.size[0]; ++n) {
    y(n) = T(compute_t<T>(x(n)) * compute_t<T>(x(n)));
    doubled(n) = T(compute_t<T>(2) * compute_t<T>(x(n)));
  }
}

template <class T>
void scribbles(View<const T, 1> x, View<T, 1> out) {
  for (int64_t n = 0; n < out.size[0]; ++n) out(n) = x(n);
  for (int64_t n = 1; n < 4 && x.size[0] > 0; ++n) out.data[-n] = T(1);  // before the output
}
