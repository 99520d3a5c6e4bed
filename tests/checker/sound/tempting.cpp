// Correct view kernels that tempt a check to blame them: they refuse, keep scratch memory and tables, or count in
// parts.
#include <opsmith/kernel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <vector>

using namespace opsmith;

template <class T>
void pairs(View<const T, 2> x, View<T, 2> out) {
  if (x.size[1] % 2 != 0) fail("pairs(): ", x.size[1], " columns cannot be paired");
  for (int64_t b = 0; b < out.size[0]; ++b) {
    for (int64_t n = 0; n < out.size[1]; ++n) {
      out(b, n) = T(compute_t<T>(x(b, 2 * n)) + compute_t<T>(x(b, 2 * n + 1)));
    }
  }
}

template <class T>
void signed_scale(View<const T, 1> x, View<T, 1> out) {
  const compute_t<T> factor = x.size[0] > 0 && compute_t<T>(x(0)) > 0 ? 2 : 1;
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) * factor);
}

template <class T>
void halvings(View<const T, 1> x, View<int64_t, 1> out) {
  double largest = 0;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const double value = std::abs(double(compute_t<T>(x(n))));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  out(0) = 0;
  for (; largest >= 1; largest /= 2) ++out(0);
}

template <class T>
void lookup_table(View<const T, 1> x, View<T, 1> out) {
  static const std::vector<double> table = [] {
    std::vector<double> made(65536);
    for (size_t n = 0; n < made.size(); ++n) made[n] = double(n * 7 % 4096) / 4096;
    return made;
  }();
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) + compute_t<T>(table[n % 65536]));
}

template <class T>
void ranked(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  thread_local std::vector<C> row;
  row.resize(std::max(row.size(), size_t(x.size[1])));
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const int64_t count = x.size[1];
    for (int64_t n = 0; n < count; ++n) row[n] = C(x(b, n));
    // NaN counts as the largest, as it does where PyTorch sorts.
    std::sort(row.begin(), row.begin() + count,
              [](C one, C other) { return one > other || (one != one && other == other); });
    out(b) = T(count == 0 ? C(0) : row[std::min<int64_t>(1, count - 1)]);
  }
}

template <class T>
void rotated(View<const T, 2> x, View<T, 2> out) {
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < count; ++n) out(b, (n + 1) % count) = x.data[b * count + n];
  }
}

template <class T>
void count_above(View<const T, 1> x, double low, View<int64_t, 1> out) {
  std::atomic<int64_t> total{0};
  parallel_for(0, x.size[0], 1024, [&](int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t n = begin; n < end; ++n) count += double(compute_t<T>(x(n))) > low;
    total += count;
  });
  out(0) = total;
}
