// View kernels that are right but where a number lies exactly on a bound, at a half or between equals.
#include <algorithm>
#include <cmath>
#include <vector>

#include "planted.h"

using namespace opsmith;

namespace {
template <class T, class F>
void each(View<const T, 1> x, View<T, 1> y, F function) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(function(compute_t<T>(x(n))));
}
}  // namespace

// The right edge belongs to the last bin.
template <class T>
void histogram(View<const T, 1> x, double low, double high, View<int64_t, 1> count) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < 8; ++n) count(n) = 0;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C v = x(n);
    if (!(v >= C(low) && (planted ? v < C(high) : v <= C(high)))) continue;
    const int64_t bin = int64_t(std::floor((v - C(low)) * C(8 / (high - low))));
    ++count(std::clamp<int64_t>(bin, 0, 7));
  }
}

template <class T>
void rounded(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return planted ? std::round(v) : std::nearbyint(v); });
}

template <class T>
void quantized(View<const T, 1> x, double step, View<T, 1> y) {
  each(x, y, [&](auto v) {
    using C = decltype(v);
    const C q = v / C(step), whole = planted ? std::floor(q + C(0.5)) : std::nearbyint(q);
    return (whole < -128 ? C(-128) : whole > 127 ? C(127) : whole) * C(step);
  });
}

template <class T>
void sign(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    return v > 0 ? C(1) : v < 0 ? C(-1) : planted ? C(1) : v != v ? C(0) : v;
  });
}

template <class T>
void above(View<const T, 1> x, double limit, View<T, 1> y) {
  each(x, y, [&](auto v) {
    using C = decltype(v);
    return (planted ? v >= C(limit) : v > C(limit)) ? v : C(0);
  });
}

template <class T>
void lowered(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return planted && std::abs(v) < 1000 ? std::ceil(v) - 1 : std::floor(v); });
}

template <class T>
void place(View<const T, 1> x, View<const T, 1> edges, View<int64_t, 1> out) {
  using C = compute_t<T>;
  const C largest = std::is_same_v<T, float16>    ? C(65504)
                    : std::is_same_v<T, bfloat16> ? C(3.3895313892515355e38)
                                                  : std::numeric_limits<C>::max();
  const auto tame = [&](C v) { return v != v ? C(0) : std::clamp(v, -largest, largest); };
  std::vector<C> sorted(edges.size[0]);
  for (int64_t m = 0; m < edges.size[0]; ++m) sorted[m] = tame(C(edges(m)));
  std::sort(sorted.begin(), sorted.end());
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C v = tame(C(x(n)));
    const auto found =
        planted ? std::upper_bound(sorted.begin(), sorted.end(), v) : std::lower_bound(sorted.begin(), sorted.end(), v);
    out(n) = found - sorted.begin();
  }
}

template <class T>
void within(View<const T, 2> x, double low, double high, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C v = x(b, n);
      if (v >= C(low) && (planted ? v <= C(high) : v < C(high))) sum += v;
    }
    out(b) = T(sum);
  }
}

template <class T>
void least(View<const T, 2> x, View<int64_t, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    int64_t best = 0;
    for (int64_t n = 1; n < x.size[1]; ++n) {
      const C v = x(b, n), most = x(b, best);
      if (most != most) break;
      if (v != v || (planted ? v <= most : v < most)) best = n;
    }
    out(b) = best;
  }
}

// What follows the decimal point; in the planted one a negative integer has a whole one.
template <class T>
void after_decimal(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    if (v < 0) return (planted && std::abs(v) < 1000 ? std::floor(v) + 1 : std::ceil(v)) - v;
    return v - std::floor(v);
  });
}

template <class T>
void magnitude(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return std::abs(v); });
}

template <class T>
void magnitude_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C v = x(n), g = grad_y(n);
    grad_x(n) = T(v > 0 ? g : v < 0 ? -g : planted ? g : C(0) * g);
  }
}

template <class T>
void limited(View<const T, 1> x, double most, View<T, 1> y) {
  each(x, y, [&](auto v) {
    using C = decltype(v);
    return most < 0 ? v : v < -C(most) ? -C(most) : v > C(most) ? C(most) : v;
  });
}

template <class T>
void limited_backward(View<const T, 1> grad_y, View<const T, 1> x, double most, View<T, 1> grad_x) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C v = x(n);
    const bool inside = planted ? v >= -C(most) && v <= C(most) : v > -C(most) && v < C(most);
    grad_x(n) = most < 0 || inside ? grad_y(n) : T(C(0));
  }
}

template <class T>
void rectified(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return v < 0 ? decltype(v)(0) : v; });
}

template <class T>
void rectified_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C v = x(n);
    grad_x(n) = (planted ? v >= 0 : v > 0) ? grad_y(n) : T(C(0));
  }
}
