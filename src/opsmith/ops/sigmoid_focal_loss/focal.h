// What focal loss does to one element, for all of its kernels.
//
// With p = sigmoid(x) and q = 1 - p = sigmoid(-x), and a target t, the loss is  alpha_t m^gamma c,  where
//     m = 1 - p_t = p (1 - t) + q t                    how far the prediction is off
//     c = softplus(x) (1 - t) + softplus(-x) t         the cross-entropy
//     alpha_t = alpha t + (1 - alpha) (1 - t)          or 1, for alpha < 0
// All of it comes from e = exp(-|x|), which cannot overflow, and from u, how far the target is from the label that x
// speaks for: 1 - t for x > 0, t otherwise. With those
//     m = (u + e (1 - u)) / (1 + e)                    c = |x| u + log(1 + e)
// and no difference of nearly equal numbers is taken for t from 0 to 1: every result keeps its digits however sure the
// prediction is. Its parts never are inf and 0, whose product would be NaN, for finite x.
//
// T is the type of the elements and C the one to compute in, as in logistic.h.
#pragma once

#include <opsmith/two_results.h>

#include "cross_entropy.h"
#include "logistic.h"

namespace opsmith::ops::sigmoid_focal_loss {
namespace {

// gamma = 2, the paper's and everybody's: a square, and the loop is free of a logarithm and an exponential.
struct Square {
  template <class C>
  OPSMITH_HOST_DEVICE C power(C m) const {
    return m * m;
  }
  template <class C>
  OPSMITH_HOST_DEVICE C gamma() const {
    return C(2);
  }
  // The derivative of m^gamma c, of those of m and c.
  template <class C>
  OPSMITH_HOST_DEVICE C slope(C m, C m_slope, C c, C c_slope) const {
    return m * (m * c_slope + C(2) * m_slope * c);
  }
};

// gamma = 0: the cross-entropy by itself.
struct One {
  template <class C>
  OPSMITH_HOST_DEVICE C power(C) const {
    return C(1);
  }
  template <class C>
  OPSMITH_HOST_DEVICE C gamma() const {
    return C(0);
  }
  template <class C>
  OPSMITH_HOST_DEVICE C slope(C, C, C, C c_slope) const {
    return c_slope;
  }
};

// Any gamma. Beyond what pow does it costs digits: m^gamma is off by about gamma |log m| units in the last place.
template <class C>
struct Power {
  C exponent;
  C of_minus_one;  // (-1)^gamma: m is negative for targets that are not probabilities

  explicit Power(double gamma)
      : exponent(static_cast<C>(gamma)), of_minus_one(static_cast<C>(__builtin_pow(-1.0, gamma))) {}

  OPSMITH_HOST_DEVICE C power(C m) const {
    // The log of 0 is replaced by a number that is as good as -inf, save that 0 times it is 0: 0^0 is 1.
    const C size = math::abs(m);
    // 1 to any power is 1, to inf and NaN too, as pow has it.
    const C log = size > C(0) || size != size ? math::log(size) : C(-1e30);
    const C result = size == C(1) ? C(1) : math::exp(exponent * log);
    return m < C(0) ? of_minus_one * result : result;
  }
  template <class>
  OPSMITH_HOST_DEVICE C gamma() const {
    return exponent;
  }
  // m^gamma / m instead of another power. Where m is 0 the whole term is: the limit for gamma > 0 even below 1. c is
  // divided because it becomes small as m does.
  OPSMITH_HOST_DEVICE C slope(C m, C m_slope, C c, C c_slope) const {
    const C rise = m == C(0) ? C(0) : exponent * m_slope * (c / m);
    return power(m) * (c_slope + rise);
  }
};

template <class C>
OPSMITH_HOST_DEVICE C positive_part(C x) {
  return x > C(0) ? x : C(0);
}

// A logit and its target, a number between 0 and 1.
template <class T>
struct Pair {
  using C = compute_t<T>;

  C x;
  C t;
  Logistic<T> at;
  C off;     // u above
  C others;  // e (1 - u)
  C m;
  C cross_entropy;

  OPSMITH_HOST_DEVICE Pair(C x, C t)
      : x(x),
        t(t),
        at(x),
        off(x > C(0) ? C(1) - t : t),
        others(at.e * (C(1) - off)),
        m(at.larger * (off + others)),
        cross_entropy(math::abs(x) * off + at.tail) {}

  // A derivative by x, of the one by |x|.
  OPSMITH_HOST_DEVICE C by_x(C by_size) const { return x > C(0) ? by_size : -by_size; }
};

// The loss for a target between 0 and 1, and its derivatives.
template <class T, class Power>
struct Dense {
  using C = compute_t<T>;

  C alpha_negative;  // alpha_t for t = 0
  C alpha_step;      // ... for t = 1, less that
  Power power;

  Dense(double alpha, Power power)
      : alpha_negative(static_cast<C>(alpha >= 0 ? 1 - alpha : 1)),
        alpha_step(static_cast<C>(alpha >= 0 ? 2 * alpha - 1 : 0)),
        power(power) {}

  OPSMITH_HOST_DEVICE C loss(const Pair<T>& pair) const {
    if constexpr (std::is_same_v<Power, One>) {
      const C size = math::abs(pair.x);
      return alpha(pair.t) * add_softplus_of_minus<T>(size * pair.off, size);
    } else {
      return alpha(pair.t) * power.power(pair.m) * pair.cross_entropy;
    }
  }

  // d loss / dx, by dm/d|x| = e (2 u - 1) / (1 + e)^2 and dc/d|x| = (u - e (1 - u)) / (1 + e).
  OPSMITH_HOST_DEVICE C slope(const Pair<T>& pair) const {
    const Logistic<T>& at = pair.at;
    const C of_m = at.e * at.larger * at.larger * (C(2) * pair.off - C(1));
    const C of_c = at.larger * (pair.off - pair.others);
    return pair.by_x(alpha(pair.t) * power.slope(pair.m, of_m, pair.cross_entropy, of_c));
  }

  // d loss / dt, by dm/du = (1 - e) / (1 + e) and dc/du = |x|; u falls with t where x > 0.
  OPSMITH_HOST_DEVICE C target_slope(const Pair<T>& pair) const {
    const C of_m = pair.at.larger * (C(1) - pair.at.e);
    const C by_off = power.slope(pair.m, of_m, pair.cross_entropy, math::abs(pair.x));
    return alpha_step * power.power(pair.m) * pair.cross_entropy - pair.by_x(alpha(pair.t) * by_off);
  }

 private:
  OPSMITH_HOST_DEVICE C alpha(C t) const { return alpha_negative + alpha_step * t; }
};

template <class T, class Power>
struct DenseLoss : Dense<T, Power> {
  using Dense<T, Power>::Dense;
  using typename Dense<T, Power>::C;
  OPSMITH_HOST_DEVICE C operator()(C x, C t) const { return this->loss({x, t}); }
};

template <class T, class Power>
struct DenseSlope : Dense<T, Power> {
  using Dense<T, Power>::Dense;
  using typename Dense<T, Power>::C;
  OPSMITH_HOST_DEVICE C operator()(C x, C t) const { return this->slope({x, t}); }
};

// Both at once: most of what they take is the same.
template <class T, class Power>
struct DenseSlopes : Dense<T, Power> {
  using Dense<T, Power>::Dense;
  using typename Dense<T, Power>::C;
  OPSMITH_HOST_DEVICE Two<C> operator()(C x, C t) const {
    const Pair<T> pair(x, t);
    return {this->slope(pair), this->target_slope(pair)};
  }
};

// For a class that is the row's (sign = 1) or is not (-1): with y = -sign x, how far x is on the wrong side, the loss
// is alpha_t sigmoid(y)^gamma softplus(y).
template <class T, class Power>
struct Class {
  using C = compute_t<T>;

  C alpha_positive;
  C alpha_negative;
  Power power;

  Class(double alpha, Power power)
      : alpha_positive(static_cast<C>(alpha >= 0 ? alpha : 1)),
        alpha_negative(static_cast<C>(alpha >= 0 ? 1 - alpha : 1)),
        power(power) {}
};

template <class T, class Power>
struct ClassLoss : Class<T, Power> {
  using Class<T, Power>::Class;
  using typename Class<T, Power>::C;
  OPSMITH_HOST_DEVICE C operator()(C x, C sign) const {
    const C y = sign > C(0) ? -x : x;
    const C alpha = sign > C(0) ? this->alpha_positive : this->alpha_negative;
    if constexpr (std::is_same_v<Power, One>) {
      return alpha * add_softplus_of_minus<T>(positive_part(y), math::abs(x));
    } else {
      const Logistic<T> at(x);
      const C m = y > C(0) ? at.larger : at.e * at.larger;
      return alpha * this->power.power(m) * (positive_part(y) + at.tail);
    }
  }
};

// d loss / dx = -sign alpha_t m^gamma (gamma (1 - m) c + m): without a division, and without another power of m.
template <class T, class Power>
struct ClassSlope : Class<T, Power> {
  using Class<T, Power>::Class;
  using typename Class<T, Power>::C;
  OPSMITH_HOST_DEVICE C operator()(C x, C sign) const {
    const C y = sign > C(0) ? -x : x;
    const Logistic<T> at(x);
    const C smaller = at.e * at.larger;
    const C m = y > C(0) ? at.larger : smaller, rest = y > C(0) ? smaller : at.larger;
    const C slope = this->power.template gamma<C>() * rest * (positive_part(y) + at.tail) + m;
    const C alpha = sign > C(0) ? -this->alpha_positive : this->alpha_negative;
    return alpha * this->power.power(m) * slope;
  }
};

template <class C>
OPSMITH_HOST_DEVICE Two<C> operator*(C factor, const Two<C>& slopes) {
  return {factor * slopes.first, factor * slopes.second};
}

// A slope, or both, times the gradient of the loss that they are slopes of: of each element ...
template <class Slope>
struct TimesEach {
  Slope slope;
  template <class C>
  OPSMITH_HOST_DEVICE auto operator()(C grad, C x, C target) const {
    return grad * slope(x, target);
  }
};

// ... or of the sum of all, which is a number on the CPU and stays in the GPU's memory on a GPU.
template <class C, class Slope>
struct Times {
  Slope slope;
  C grad;

  OPSMITH_HOST_DEVICE auto operator()(C x, C target) const { return grad * slope(x, target); }
};

template <class T, class Slope>
struct TimesTotal {
  Slope slope;
  const T* grad;
  compute_t<T> scale;

  OPSMITH_HOST_DEVICE auto operator()(compute_t<T> x, compute_t<T> target) const {
    return static_cast<compute_t<T>>(*grad) * scale * slope(x, target);
  }
};

// Calls f with the way to raise to gamma.
template <class C, class F>
void with_power(double gamma, const F& f) {
  if (gamma == 2) return f(Square{});
  if (gamma == 0) return f(One{});
  f(Power<C>(gamma));
}

}  // namespace
}  // namespace opsmith::ops::sigmoid_focal_loss
