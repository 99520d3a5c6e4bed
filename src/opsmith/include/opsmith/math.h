// Elementary functions for kernels, in float and double, on the host and on GPUs: math::abs, exp, expm1, log, log1p,
// tanh, sigmoid, elu.
//
// On a GPU they are the accurate functions of its own library; sigmoid in float is off by 4.0 ulp at most (over all
// floats on an H200). On the host those for double are libm's but for sigmoid, and those for float are written here: no
// calls, no branches and no tables, so that loops over them vectorise with -O3 -fno-math-errno -fno-trapping-math. For
// NaN they return NaN, for infinities the limit, for -0 what C's functions return; subnormal results are rounded like
// any other.
//
// The largest errors on the host over all 2^32 floats, in units in the last place, against double; measured with g++ 12
// by tests/cpp/math_test, which holds any compiler to them on a sample:
//
//              plain x86-64   AVX-512 with FMA
//     exp          0.95         0.98
//     expm1        1.47         1.44
//     log          0.95         0.95
//     log1p        1.54         1.49
//     tanh         2.50         2.50
//     sigmoid      2.40         2.40
//     elu          0.84         0.87
//
// A namespace of their own keeps the names apart from <math.h>'s, and from operators that are called sigmoid or elu.
#pragma once

#include <cstdint>

#include "types.h"

#ifdef __FAST_MATH__
#error "opsmith/math.h relies on IEEE arithmetic: use -fno-math-errno -fno-trapping-math in place of -ffast-math"
#endif

namespace opsmith::math {

#if !defined(__CUDACC_RTC__)  // it compiles for GPUs alone, and has none of a host compiler's builtins

namespace detail {

// exp(x) = 2^k (1 + p), with k the integer next to x / ln 2 and p = exp(x - k ln 2) - 1.
struct Reduced {
  int32_t k;
  float p;
};

// For |x| < 2^9, and NaN, for which p is NaN and k anything.
OPSMITH_HOST_DEVICE Reduced reduce_exp(float x) {
  // Adding 1.5 * 2^23 leaves a float no bits for a fraction: it rounds to an integer, which then is the mantissa's end.
  constexpr float to_integer = 0x1.8p23f;
  const float shifted = x * 0x1.715476p0f + to_integer;
  const int32_t k = bit_cast<int32_t>(shifted) - bit_cast<int32_t>(to_integer);
  const float n = shifted - to_integer;
  // ln 2 in two parts. The first has 15 bits, so that n times it is exact.
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  // (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2: a minimax fit of degree 5, to 2.2e-9 of exp(r) - 1.
  float q = 0x1.a032bep-13f;
  q = q * r + 0x1.6d71e8p-10f;
  q = q * r + 0x1.11118ap-7f;
  q = q * r + 0x1.5554b2p-5f;
  q = q * r + 0x1.555554p-3f;
  q = q * r + 0.5f;
  return {k, r * r * q + r};
}

// 2^k for -126 <= k <= 127.
OPSMITH_HOST_DEVICE float power_of_two(int32_t k) { return bit_cast<float>(static_cast<uint32_t>(k + 127) << 23); }

// A NaN passes through both: it is neither below nor above.
OPSMITH_HOST_DEVICE float at_least(float low, float x) { return x < low ? low : x; }
OPSMITH_HOST_DEVICE float at_most(float high, float x) { return x > high ? high : x; }

OPSMITH_HOST_DEVICE float exp(float x) {
  // Beyond these the result is 0 and infinity, which the powers of two below reach by themselves.
  const Reduced reduced = reduce_exp(at_least(-105.0f, at_most(90.0f, x)));
  // k goes from -151 to 130, past what one float's exponent holds. The second product does the only rounding.
  const int32_t half = reduced.k >> 1;
  return (1.0f + reduced.p) * power_of_two(half) * power_of_two(reduced.k - half);
}

// exp(x) for x <= 0, and NaN, with one factor: k goes from -151 to 0, and 25 more fits into an exponent. The last
// product moves the exponent back; only where that makes the result subnormal does it round.
OPSMITH_HOST_DEVICE float exp_not_above_0(float x) {
  const Reduced reduced = reduce_exp(at_least(-105.0f, x));
  const float factor = power_of_two(reduced.k + 25);
  return (factor * reduced.p + factor) * 0x1p-25f;
}

// The same in double: libm's is a call for each element. The polynomial is Taylor's, whose first term left out is below
// 2^-57 of the result.
OPSMITH_HOST_DEVICE double exp_not_above_0(double x) {
  constexpr double to_integer = 0x1.8p52;
  x = x < -746.0 ? -746.0 : x;
  const double shifted = x * 0x1.71547652b82fep0 + to_integer;
  const int64_t k = bit_cast<int64_t>(shifted) - bit_cast<int64_t>(to_integer);  // from -1076 to 0
  const double n = shifted - to_integer;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double q = 1.0 / 6227020800.0;
  q = q * r + 1.0 / 479001600.0;
  q = q * r + 1.0 / 39916800.0;
  q = q * r + 1.0 / 3628800.0;
  q = q * r + 1.0 / 362880.0;
  q = q * r + 1.0 / 40320.0;
  q = q * r + 1.0 / 5040.0;
  q = q * r + 1.0 / 720.0;
  q = q * r + 1.0 / 120.0;
  q = q * r + 1.0 / 24.0;
  q = q * r + 1.0 / 6.0;
  q = q * r + 0.5;
  const double factor = bit_cast<double>((static_cast<uint64_t>(k) + 1023 + 54) << 52);
  return (factor * (r * r * q + r) + factor) * 0x1p-54;
}

OPSMITH_HOST_DEVICE float expm1(float x) {
  const Reduced reduced = reduce_exp(at_least(-18.0f, at_most(89.0f, x)));
  // k goes from -26 to 128. 2^128 is not a float, so this is twice the half of 2^k p + (2^k - 1).
  const float half = power_of_two(reduced.k - 1);
  const float result = 2.0f * (half * reduced.p + (half - 0.5f));
  // Halving would cost subnormals a bit and -0 its sign; this close to 0 the function is the identity.
  return (x < 0x1p-25f && x > -0x1p-25f) ? x : result;
}

// A positive number as 2^k (1 + f), with 1 + f between sqrt(1/2) and sqrt(2).
struct Scaled {
  int32_t k;
  float f;
};

// For normal x > 0; anything else gives some numbers.
OPSMITH_HOST_DEVICE Scaled split_power_of_two(float x) {
  // Subtracting the bits of sqrt(1/2) makes the exponent's field count from there. What is left is the mantissa's
  // place.
  constexpr uint32_t root_of_half = 0x3f3504f3u;
  const uint32_t offset = bit_cast<uint32_t>(x) - root_of_half;
  return {static_cast<int32_t>(offset) >> 23, bit_cast<float>((offset & 0x007fffffu) + root_of_half) - 1.0f};
}

// log(2^k (1 + f)) = k ln 2 + 2 artanh(s) with s = f / (2 + f), in which 2 s is f - s f: so f, which is exact, is most
// of it where k is 0.
OPSMITH_HOST_DEVICE float join_log(int32_t k, float f) {
  const float s = f / (2.0f + f);
  const float z = s * s;
  // (2 artanh(s) / s - 2) / z for z <= 0.0295: a minimax fit of degree 2, to 1e-9 of 2 artanh(s).
  float p = 0x1.31e132p-2f;
  p = p * z + 0x1.995eccp-2f;
  p = p * z + 0x1.55557ap-1f;
  const float n = static_cast<float>(k);
  return (f - (s * (f - z * p) - n * 0x1.7f7d1cp-20f)) + n * 0x1.62e4p-1f;
}

OPSMITH_HOST_DEVICE float log(float x) {
  // The integer arithmetic is for normal numbers, and a subnormal one becomes normal by a power of two.
  const bool is_small = x < 0x1p-126f;
  const Scaled scaled = split_power_of_two(is_small ? x * 0x1p25f : x);
  const float result = join_log(is_small ? scaled.k - 25 : scaled.k, scaled.f);
  constexpr float infinity = __builtin_inff();
  const float of_zero_or_less = x == 0.0f ? -infinity : __builtin_nanf("");
  return x > 0.0f ? (x < infinity ? result : x) : (x <= 0.0f ? of_zero_or_less : x);
}

OPSMITH_HOST_DEVICE float log1p(float x) {
  const float u = 1.0f + x;
  // What rounding took from u, exactly: the sum minus the larger summand is what there is of the smaller.
  const float lost = x < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
  const Scaled scaled = split_power_of_two(u);
  // Near 0 this makes f = x again. For a large u nothing counts that was lost, but 2^-k must stay a float.
  const float result = join_log(scaled.k, scaled.f + lost * power_of_two(-(scaled.k < 126 ? scaled.k : 126)));
  constexpr float infinity = __builtin_inff();
  const float of_minus_one_or_less = x == -1.0f ? -infinity : __builtin_nanf("");
  const float inside = x == 0.0f ? x : result;  // -0 too
  return x > -1.0f ? (x < infinity ? inside : x) : (x <= -1.0f ? of_minus_one_or_less : x);
}

OPSMITH_HOST_DEVICE float tanh(float x) {
  const float t = expm1(-2.0f * __builtin_fabsf(x));  // in [-1, 0]: nothing overflows, and it is accurate at 0
  return __builtin_copysignf(t / (2.0f + t), x);
}

}  // namespace detail

// Of a float as a float: __builtin_fabs makes a double of it, which takes a GPU as long as many additions.
OPSMITH_HOST_DEVICE float abs(float x) { return __builtin_fabsf(x); }
OPSMITH_HOST_DEVICE double abs(double x) { return __builtin_fabs(x); }

#else

OPSMITH_HOST_DEVICE float abs(float x) { return ::fabsf(x); }
OPSMITH_HOST_DEVICE double abs(double x) { return ::fabs(x); }

#endif

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)

OPSMITH_HOST_DEVICE float exp(float x) { return ::expf(x); }
OPSMITH_HOST_DEVICE float expm1(float x) { return ::expm1f(x); }
OPSMITH_HOST_DEVICE float log(float x) { return ::logf(x); }
OPSMITH_HOST_DEVICE float log1p(float x) { return ::log1pf(x); }
OPSMITH_HOST_DEVICE float tanh(float x) { return ::tanhf(x); }
OPSMITH_HOST_DEVICE double exp(double x) { return ::exp(x); }
OPSMITH_HOST_DEVICE double expm1(double x) { return ::expm1(x); }
OPSMITH_HOST_DEVICE double log(double x) { return ::log(x); }
OPSMITH_HOST_DEVICE double log1p(double x) { return ::log1p(x); }
OPSMITH_HOST_DEVICE double tanh(double x) { return ::tanh(x); }

#else

OPSMITH_HOST_DEVICE float exp(float x) { return detail::exp(x); }
OPSMITH_HOST_DEVICE float expm1(float x) { return detail::expm1(x); }
OPSMITH_HOST_DEVICE float log(float x) { return detail::log(x); }
OPSMITH_HOST_DEVICE float log1p(float x) { return detail::log1p(x); }
OPSMITH_HOST_DEVICE float tanh(float x) { return detail::tanh(x); }
// libm, without <cmath>: it would add 0.1 s to every compilation.
OPSMITH_HOST_DEVICE double exp(double x) { return __builtin_exp(x); }
OPSMITH_HOST_DEVICE double expm1(double x) { return __builtin_expm1(x); }
OPSMITH_HOST_DEVICE double log(double x) { return __builtin_log(x); }
OPSMITH_HOST_DEVICE double log1p(double x) { return __builtin_log1p(x); }
OPSMITH_HOST_DEVICE double tanh(double x) { return __builtin_tanh(x); }

#endif

// 1 / (1 + exp(-x)). The exponential is of a number that is not above 0: it cannot overflow, and where the result is
// small it keeps its digits. On a GPU the division is the approximate one, of 2 ulp for divisors from 1 to 2: the exact
// one has a branch and three times the instructions, and took sigmoid 8 % of its time.
OPSMITH_HOST_DEVICE float sigmoid(float x) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  const float e = exp(-abs(x));
  return __fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);
#else
  const float e = detail::exp_not_above_0(-abs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
#endif
}
OPSMITH_HOST_DEVICE double sigmoid(double x) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  const double e = exp(-abs(x));
#else
  const double e = detail::exp_not_above_0(-abs(x));
#endif
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// x above 0, exp(x) - 1 elsewhere.
OPSMITH_HOST_DEVICE float elu(float x) { return x > 0.0f ? x : expm1(x); }
OPSMITH_HOST_DEVICE double elu(double x) { return x > 0.0 ? x : expm1(x); }

}  // namespace opsmith::math
