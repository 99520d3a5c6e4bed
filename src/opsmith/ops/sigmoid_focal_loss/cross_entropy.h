// The cross-entropy by itself, which is the loss for gamma = 0: softplus(y), to less than a unit in the last place.
//
// Each step of logistic.h rounds, which gamma's power magnifies anyway. Here what a step rounds off is kept beside its
// result, and one addition at the end rounds both together. Only sums and products of floats are used, so that a CPU
// and a GPU are equally accurate.
#pragma once

#include "logistic.h"

namespace opsmith::ops::sigmoid_focal_loss {
namespace {

// A number as a sum whose second part is small: what rounding has taken from the first, or a correction of it.
struct Sum {
  float high;
  float low;
};

// large + small, exactly, for |large| >= |small|.
OPSMITH_HOST_DEVICE Sum add_smaller(float large, float small) {
  const float sum = large + small;
  return {sum, small - (sum - large)};
}

// exp(-a) for a >= 0, as math::detail::exp_not_above_0 computes it.
OPSMITH_HOST_DEVICE Sum exp_of_minus(float a) {
  // Below, the result is 0, and a power of two would leave its range.
  const float x = math::detail::at_least(-105.0f, -a);
  constexpr float to_integer = 0x1.8p23f;
  const float shifted = x * 0x1.715476p0f + to_integer;
  const int32_t k = bit_cast<int32_t>(shifted) - bit_cast<int32_t>(to_integer);
  const float n = shifted - to_integer;
  const float most = x - n * 0x1.62e4p-1f;  // exactly
  const Sum r = add_smaller(most, n * -0x1.7f7d1cp-20f);
  float q = 0x1.a032bep-13f;
  q = q * r.high + 0x1.6d71e8p-10f;
  q = q * r.high + 0x1.11118ap-7f;
  q = q * r.high + 0x1.5554b2p-5f;
  q = q * r.high + 0x1.555554p-3f;
  q = q * r.high + 0.5f;
  const Sum first = add_smaller(1.0f, r.high);
  const Sum p = add_smaller(first.high, first.low + (r.high * r.high * q + r.low));
  const float factor = math::detail::power_of_two(k + 25);
  return {p.high * factor * 0x1p-25f, p.low * factor * 0x1p-25f};
}

// x^2: its first part is that of x without the last 12 bits, which fits into a float.
OPSMITH_HOST_DEVICE Sum square(float x) {
  const float front = bit_cast<float>(bit_cast<uint32_t>(x) & 0xfffff000u);
  return {front * front, (x - front) * (x + front)};
}

// log(1 + exp(-a)) for a >= 0.
OPSMITH_HOST_DEVICE Sum softplus_of_minus(float a) {
  // e - e^2 / 2 + e^3 R(e) with e = exp(-a). R is a minimax fit of degree 5 up to exp(-0.875).
  const Sum e = exp_of_minus(a), ee = square(e.high);
  float r = -0x1.2f3f32p-5f;
  r = r * e.high + 0x1.9dcea8p-4f;
  r = r * e.high - 0x1.3dc158p-3f;
  r = r * e.high + 0x1.95fb28p-3f;
  r = r * e.high - 0x1.ffb846p-3f;
  r = r * e.high + 0x1.555448p-2f;
  const Sum front = add_smaller(e.high, -0.5f * ee.high);
  const float rest = e.high * e.high * e.high * r - 0.5f * ee.low + e.low * (1.0f - e.high);

  // log 2 - z + log(cosh(z)) with z = a / 2, where log(cosh(z)) is z^2 / 2 - z^4 S(z^2): of larger e than these the
  // series above has too many terms. S is a minimax fit of degree 2 up to z = 0.875 / 2.
  const float z = 0.5f * a, w = z * z;
  const Sum zz = square(z);
  float s = 0x1.845f16p-8f;
  s = s * w - 0x1.6a650ap-6f;
  s = s * w + 0x1.555106p-4f;
  const Sum line = add_smaller(0x1.62e430p-1f, -z), curve = add_smaller(line.high, 0.5f * zz.high);
  const float rest_of_curve = 0.5f * zz.low - w * w * s + (line.low - 0x1.05c610p-29f);

  return a <= 0.875f ? Sum{curve.high, curve.low + rest_of_curve} : Sum{front.high, front.low + rest};
}

// part + log(1 + exp(-a)) for part >= 0 and a >= 0.
template <class T>
OPSMITH_HOST_DEVICE compute_t<T> add_softplus_of_minus(compute_t<T> part, compute_t<T> a) {
  if constexpr (sizeof(T) == 4) {
    const Sum tail = softplus_of_minus(a);
    const Sum sum = add_smaller(part > tail.high ? part : tail.high, part > tail.high ? tail.high : part);
    // What is beside an infinity is the difference of two.
    return math::abs(sum.high) <= 0x1.fffffep127f ? sum.high + (sum.low + tail.low) : sum.high;
  } else {
    return part + log1p_of_fraction<T>(exp_of_negative<T>(-a));
  }
}

}  // namespace
}  // namespace opsmith::ops::sigmoid_focal_loss
