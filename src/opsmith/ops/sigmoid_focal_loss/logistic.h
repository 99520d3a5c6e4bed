// What focal loss is made of: exp(-|x|), and from that the sigmoid and the softplus of x and -x.
//
// T is the type of the elements, C the one to compute in. Where T has 16 bits a GPU approximates exp and log to 1e-5,
// by half the instructions, which are what its kernels take their time for then; rounding to float16 changes a result
// by up to 5e-4. A CPU kernel passes C for T, because its loops are the same for all element types.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/math.h>

namespace opsmith::ops::sigmoid_focal_loss {
namespace {

// 1 / x for x from 1 to 2. On a GPU it is one instruction, a unit in the last place off; a division takes ten.
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

#if defined(__CUDACC__) || defined(__HIPCC__)
// exp(x) for x not above 0, to about |x| units in the last place, and without subnormal results.
__device__ inline float short_exp(float x) {
#if defined(__HIPCC__)
  return __expf(x);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 0x1.715476p0f));
  return result;
#endif
}
#endif

// exp(x) for x not above 0.
template <class T>
OPSMITH_HOST_DEVICE compute_t<T> exp_of_negative(compute_t<T> x) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  if constexpr (sizeof(T) == 2) return short_exp(x);
#endif
  return math::exp(x);
}

// log(1 + e) for e from 0 to 1, as e (1 + e P(e)). Without the general function's reduction to such a range, which
// takes longer than this, and without a division. P is a minimax fit of (log(1 + e) / e - 1) / e.
template <class T>
OPSMITH_HOST_DEVICE compute_t<T> log1p_of_fraction(compute_t<T> e) {
  if constexpr (sizeof(T) == 8) {
    return math::log1p(e);
  } else if constexpr (sizeof(T) == 2) {  // to 9.6e-6
    float p = -0x1.95402ep-6f;
    p = p * e + 0x1.a850c0p-4f;
    p = p * e - 0x1.b300fap-3f;
    p = p * e + 0x1.4e0e36p-2f;
    p = p * e - 0x1.ff8746p-2f;
    return e * (1.0f + e * p);
  } else {  // to 3.3e-8, and 1.5 units in the last place as it is rounded
    float p = 0x1.5f96dap-8f;
    p = p * e - 0x1.ec991ap-6f;
    p = p * e + 0x1.446bfcp-4f;
    p = p * e - 0x1.19ad8ap-3f;
    p = p * e + 0x1.884452p-3f;
    p = p * e - 0x1.fd1320p-3f;
    p = p * e + 0x1.5535dap-2f;
    p = p * e - 0x1.ffff14p-2f;
    return e * (1.0f + e * p);
  }
}

// What all of it is made of. It is the same for x and -x.
template <class T>
struct Logistic {
  using C = compute_t<T>;

  C e;       // exp(-|x|)
  C larger;  // sigmoid(|x|); e times that is sigmoid(-|x|)
  C tail;    // log(1 + e): softplus(x) without max(x, 0), and softplus(-x) without max(-x, 0)

  OPSMITH_HOST_DEVICE explicit Logistic(C x)
      : e(exp_of_negative<T>(-math::abs(x))), larger(reciprocal(C(1) + e)), tail(log1p_of_fraction<T>(e)) {}
};

}  // namespace
}  // namespace opsmith::ops::sigmoid_focal_loss
