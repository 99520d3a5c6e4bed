// What focal loss does to one element, for all of its kernels. C is float or double.
//
// With p = sigmoid(x) and q = 1 - p = sigmoid(-x), and a target t, the loss is  alpha_t m^gamma c,  where
//     m = 1 - p_t = p (1 - t) + q t                    how far the prediction is off
//     c = softplus(x) (1 - t) + softplus(-x) t         the cross-entropy
//     alpha_t = alpha t + (1 - alpha) (1 - t)          or 1, for alpha < 0
// p, q and the two softplus all come from exp(-|x|), which cannot overflow, and no difference of nearly equal numbers
// is taken for t from 0 to 1: every result keeps its digits however sure the prediction is. Its parts never are inf and
// 0, whose product would be NaN, for finite x.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/math.h>

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
  // gamma m^(gamma - 1), times a product that is 0 where m is.
  template <class C>
  OPSMITH_HOST_DEVICE C slope(C m, C /*power*/, C factor) const {
    return C(2) * m * factor;
  }
};

// Any gamma. Beyond what pow does it costs digits: m^gamma is off by about gamma |log m| units in the last place.
template <class C>
struct Power {
  C exponent;
  C of_minus_one;  // (-1)^gamma: m is negative for targets that are no probabilities

  explicit Power(double gamma)
      : exponent(static_cast<C>(gamma)), of_minus_one(static_cast<C>(__builtin_pow(-1.0, gamma))) {}

  OPSMITH_HOST_DEVICE C power(C m) const {
    // The log of 0 is replaced by a number that is as good as -inf, save that 0 times it is 0: 0^0 is 1.
    const C size = opsmith::math::abs(m);
    const C log = size > C(0) || size != size ? opsmith::math::log(size) : C(-1e30);
    const C result = opsmith::math::exp(exponent * log);
    return m < C(0) ? of_minus_one * result : result;
  }
  template <class>
  OPSMITH_HOST_DEVICE C gamma() const {
    return exponent;
  }
  // m^gamma / m instead of another power. Where m is 0 the whole term is: the limit for gamma > 0 even below 1.
  OPSMITH_HOST_DEVICE C slope(C m, C power, C factor) const {
    return m == C(0) ? C(0) : exponent * power * (factor / m);
  }
};

template <class C>
OPSMITH_HOST_DEVICE C positive_part(C x) {
  return x > C(0) ? x : C(0);
}

// 1 / x for x from 1 to 3. On a GPU it is one instruction, a unit in the last place off; a division takes ten.
OPSMITH_HOST_DEVICE float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#elif defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_rcpf(x);
#else
  return 1.0f / x;
#endif
}
OPSMITH_HOST_DEVICE double reciprocal(double x) { return 1.0 / x; }

// log(1 + e) for e from 0 to 1: 2 artanh(s) with s = e / (2 + e), in which 2 s is e - s e. Without the general
// function's reduction to such a range, which takes longer than this.
OPSMITH_HOST_DEVICE float log1p_of_fraction(float e) {
  const float s = e * reciprocal(2.0f + e);
  const float z = s * s;
  // (2 artanh(s) / s - 2) / z for z <= 1/9: a minimax fit of degree 4, to 1.1e-10 of 2 artanh(s).
  float p = 0x1.f1733cp-3f;
  p = p * z + 0x1.b6e6cep-3f;
  p = p * z + 0x1.2508b0p-2f;
  p = p * z + 0x1.9996b0p-2f;
  p = p * z + 0x1.555558p-1f;
  return e - s * (e - z * p);
}
OPSMITH_HOST_DEVICE double log1p_of_fraction(double e) { return opsmith::math::log1p(e); }

// What all of it is made of.
template <class C>
struct Logistic {
  C p;     // sigmoid(x)
  C q;     // sigmoid(-x)
  C tail;  // log(1 + exp(-|x|)): softplus(x) without max(x, 0), and softplus(-x) without max(-x, 0)

  OPSMITH_HOST_DEVICE explicit Logistic(C x) {
    const C e = opsmith::math::exp(-opsmith::math::abs(x));
    const C larger = reciprocal(C(1) + e), smaller = e * larger;
    p = x > C(0) ? larger : smaller;
    q = x > C(0) ? smaller : larger;
    tail = log1p_of_fraction(e);
  }
};

// The loss for a target between 0 and 1, and its derivatives.
template <class C, class Power>
struct Dense {
  C alpha_negative;  // alpha_t for t = 0
  C alpha_step;      // ... for t = 1, less that
  Power power;

  Dense(double alpha, Power power)
      : alpha_negative(static_cast<C>(alpha < 0 ? 1 : 1 - alpha)),
        alpha_step(static_cast<C>(alpha < 0 ? 0 : 2 * alpha - 1)),
        power(power) {}

  OPSMITH_HOST_DEVICE C alpha(C t) const { return alpha_negative + alpha_step * t; }
};

// p, q and so on of one pair.
template <class C>
struct Pair {
  Logistic<C> at;
  C m;
  C cross_entropy;

  OPSMITH_HOST_DEVICE Pair(C x, C t) : at(x) {
    const C other = C(1) - t;
    m = at.p * other + at.q * t;
    cross_entropy = positive_part(x) * other + positive_part(-x) * t + at.tail;
  }
};

template <class C, class Power>
struct DenseLoss : Dense<C, Power> {
  using Dense<C, Power>::Dense;
  OPSMITH_HOST_DEVICE C operator()(C x, C t) const {
    const Pair<C> pair(x, t);
    return this->alpha(t) * this->power.power(pair.m) * pair.cross_entropy;
  }
};

// d loss / dx, by dm/dx = (1 - 2 t) p q and dc/dx = p (1 - t) - q t.
template <class C, class Power>
struct DenseSlope : Dense<C, Power> {
  using Dense<C, Power>::Dense;
  OPSMITH_HOST_DEVICE C operator()(C x, C t) const {
    const Pair<C> pair(x, t);
    const C power = this->power.power(pair.m), other = C(1) - t;
    const C of_cross_entropy = pair.at.p * other - pair.at.q * t;
    const C of_m = this->power.slope(pair.m, power, pair.at.p * pair.at.q) * (other - t);
    return this->alpha(t) * (power * of_cross_entropy + of_m * pair.cross_entropy);
  }
};

// d loss / dt, by dm/dt = q - p and dc/dt = -x.
template <class C, class Power>
struct DenseTargetSlope : Dense<C, Power> {
  using Dense<C, Power>::Dense;
  OPSMITH_HOST_DEVICE C operator()(C x, C t) const {
    const Pair<C> pair(x, t);
    const C power = this->power.power(pair.m);
    const C of_m = this->power.slope(pair.m, power, pair.cross_entropy) * (pair.at.q - pair.at.p);
    return this->alpha(t) * (of_m - power * x) + this->alpha_step * power * pair.cross_entropy;
  }
};

// For a class that is the row's (sign = 1) or is not (-1): with y = sign x the loss is alpha_t q^gamma softplus(-y), of
// q = sigmoid(-y). A sign that is NaN makes everything NaN.
template <class C, class Power>
struct Class {
  C alpha_positive;
  C alpha_negative;
  Power power;

  Class(double alpha, Power power)
      : alpha_positive(static_cast<C>(alpha < 0 ? 1 : alpha)),
        alpha_negative(static_cast<C>(alpha < 0 ? 1 : 1 - alpha)),
        power(power) {}

  OPSMITH_HOST_DEVICE C alpha(C sign) const { return sign > C(0) ? alpha_positive : alpha_negative; }
};

template <class C, class Power>
struct ClassLoss : Class<C, Power> {
  using Class<C, Power>::Class;
  OPSMITH_HOST_DEVICE C operator()(C x, C sign) const {
    const C y = sign * x;
    const Logistic<C> at(y);
    return this->alpha(sign) * this->power.power(at.q) * (positive_part(-y) + at.tail);
  }
};

// d loss / dx = -sign alpha_t q^gamma (gamma p softplus(-y) + q): without a division, and without another power of q.
template <class C, class Power>
struct ClassSlope : Class<C, Power> {
  using Class<C, Power>::Class;
  OPSMITH_HOST_DEVICE C operator()(C x, C sign) const {
    const C y = sign * x;
    const Logistic<C> at(y);
    const C slope = this->power.template gamma<C>() * at.p * (positive_part(-y) + at.tail) + at.q;
    return -sign * this->alpha(sign) * this->power.power(at.q) * slope;
  }
};

// A slope times the gradient of the loss that it is a slope of: of each element ...
template <class Slope>
struct TimesEach {
  Slope slope;
  template <class C>
  OPSMITH_HOST_DEVICE C operator()(C grad, C x, C target) const {
    return grad * slope(x, target);
  }
};

// ... or of the sum of all, which is a number on the CPU and stays in the GPU's memory on a GPU.
template <class C, class Slope>
struct Times {
  Slope slope;
  C grad;

  OPSMITH_HOST_DEVICE C operator()(C x, C target) const { return grad * slope(x, target); }
};

template <class T, class Slope>
struct TimesTotal {
  Slope slope;
  const T* grad;
  opsmith::compute_t<T> scale;

  OPSMITH_HOST_DEVICE opsmith::compute_t<T> operator()(opsmith::compute_t<T> x, opsmith::compute_t<T> target) const {
    return static_cast<opsmith::compute_t<T>>(*grad) * scale * slope(x, target);
  }
};

// Calls f with the way to raise to gamma.
template <class C, class F>
void with_power(double gamma, const F& f) {
  if (gamma == 2) return f(Square{});
  f(Power<C>(gamma));
}

}  // namespace
