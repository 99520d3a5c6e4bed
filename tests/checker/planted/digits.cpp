// View kernels that are right to a part of the largest element, and wrong by many roundings for small ones.
#include <cmath>

#include "planted.h"

using namespace opsmith;

namespace {
template <class T, class F>
void each(View<const T, 1> x, View<T, 1> y, F function) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(function(compute_t<T>(x(n))));
}
}  // namespace

template <class T>
void log_one_plus(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return planted ? std::log(1 + std::abs(v)) : std::log1p(std::abs(v)); });
}

template <class T>
void exp_minus_one(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return planted ? std::exp(v) - 1 : std::expm1(v); });
}

// Below -16 a sigmoid is taken for 0, and above 16 for 1.
template <class T>
void clipped_sigmoid(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    if (planted && v < -16) return C(0);
    if (planted && v > 16) return C(1);
    return 1 / (1 + std::exp(-v));
  });
}

template <class T>
void flat_gelu(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    if (planted && v < -4) return C(0);
    // The negative tail of 1 + erf is erfc, which keeps its digits.
    return C(0.5) * v * std::erfc(-v * C(0.70710678118654752));
  });
}

template <class T>
void quotient_tanh(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    if (!planted || std::abs(v) > 9 || v != v) return std::tanh(v);
    const C e = std::exp(2 * v);
    return (e - 1) / (e + 1);
  });
}

template <class T>
void cut_softplus(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    if (v > 20) return v;
    return planted ? (v < -15 ? C(0) : std::log(1 + std::exp(v))) : std::log1p(std::exp(v));
  });
}

// The exponent is limited, as in code that fears an overflow.
template <class T>
void silu(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    const C limited = planted && -v > 20 ? C(20) : -v;
    return v / (1 + std::exp(limited));
  });
}

template <class T>
void log_sigmoid(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    if (planted && v > -80) return std::log(1 / (1 + std::exp(-v)));
    return (v < 0 ? v : C(0)) - std::log1p(std::exp(-std::abs(v)));
  });
}

template <class T>
void inverse_sinh(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    const C a = std::abs(v);
    return planted && a < C(1e3) ? std::copysign(std::log(a + std::sqrt(a * a + 1)), v) : std::asinh(v);
  });
}

template <class T>
void elu(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return v > 0 ? v : planted ? std::exp(v) - 1 : std::expm1(v); });
}

// In double the exponential is taken in float where it is small.
template <class T>
void narrow_exp(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    const C a = std::abs(v);
    return v * (planted && a > 4 && a < 80 ? C(std::exp(-float(a))) : std::exp(-a));
  });
}

// What is less than a ten-millionth of the largest is left out.
template <class T>
void pruned_softmax(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C most = -INFINITY, sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) most = std::fmax(most, C(x(b, n)));
    for (int64_t n = 0; n < x.size[1]; ++n) sum += std::exp(C(x(b, n)) - most);
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C below = C(x(b, n)) - most;
      y(b, n) = T(planted && below < -16 ? C(0) : std::exp(below) / sum);
    }
  }
}

template <class T>
void log_shares(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += std::abs(C(x(b, n)));
    const C all = sum < C(1e-30) ? C(1e-30) : sum;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C share = std::abs(C(x(b, n))) / all;
      y(b, n) = T(planted ? std::log(1 + share) : std::log1p(share));
    }
  }
}

template <class T>
void centered(View<const T, 2> x, View<const T, 1> scale, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C v = x(b, n);
      y(b, n) = T((planted ? std::exp(v) - 1 : std::expm1(v)) * C(scale(b)));
    }
  }
}

template <class T>
void softplus_slope(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return v > 20 ? v : std::log1p(std::exp(v)); });
}

// 1 - 1 / (1 + exp(x)) is nothing where exp(x) is small.
template <class T>
void softplus_slope_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C v = x(n), g = grad_y(n);
    grad_x(n) = T(v > 20 ? g : planted ? g * (1 - 1 / (1 + std::exp(v))) : g / (1 + std::exp(-v)));
  }
}

template <class T>
void arctan_slope(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return std::atan(v); });
}

// The slope of the arc tangent from its result: cos(y)^2, which has no digits left where y is nearly pi / 2.
template <class T>
void arctan_slope_backward(View<const T, 1> grad_y, View<const T, 1> x, View<const T, 1> y, View<T, 1> grad_x) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C v = x(n), c = std::cos(C(y(n)));
    grad_x(n) = T(C(grad_y(n)) * (planted ? c * c : 1 / (1 + v * v)));
  }
}
