// Sums and products that are rounded once each, to the type C, so that all processors find the same numbers.
//
// A fused multiply-add would round less often: nvcc is kept from it by intrinsics, clang and hipcc by the pragma, and
// g++ by -ffp-contract=off, which definitions pass.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops {
namespace {

namespace unfused {

#if defined(__CUDA_ARCH__)
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float subtract(float a, float b) { return __fsub_rn(a, b); }
__device__ inline float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double subtract(double a, double b) { return __dsub_rn(a, b); }
__device__ inline double multiply(double a, double b) { return __dmul_rn(a, b); }
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
template <class C>
OPSMITH_HOST_DEVICE C add(C a, C b) {
  return a + b;
}
template <class C>
OPSMITH_HOST_DEVICE C subtract(C a, C b) {
  return a - b;
}
template <class C>
OPSMITH_HOST_DEVICE C multiply(C a, C b) {
  return a * b;
}
#endif

// A product that is rounded once without that flag too: for kernels whose other sums are faster with fused operations.
// A detour through double does not keep g++ from fusing.
template <class C>
OPSMITH_HOST_DEVICE C product(C a, C b) {
#if defined(__CUDA_ARCH__) || defined(__clang__)
  return multiply(a, b);
#else
  const volatile C rounded = a * b;
  return rounded;
#endif
}

}  // namespace unfused

}  // namespace
}  // namespace opsmith::ops
