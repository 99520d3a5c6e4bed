// The larger ones of vectors of elements, element by element: an instruction for each 32 bits where the GPU has one.
#pragma once

#include <opsmith/kernel.h>

#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

// NaN where one of two is NaN. Of zeros of both signs it is either.
__device__ inline float largest(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return is_larger(b, a) ? b : a;
#endif
}
__device__ inline double largest(double a, double b) { return is_larger(b, a) ? b : a; }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <class T>
__device__ uint32_t largest_pair(uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (std::is_same_v<T, float16>) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}
#else
template <class T>
__device__ uint32_t largest_pair(uint32_t a, uint32_t b);
#endif

// Whether two elements of 16 bits are compared at once, and places kept for these.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool compares_pairs = true;

// is_larger() of both: all bits of an element's 16.
template <class T>
__device__ uint32_t is_larger_pair(uint32_t value, uint32_t most) {
  uint32_t is_above, is_number;
  if constexpr (std::is_same_v<T, float16>) {
    asm("set.gtu.u32.f16x2 %0, %1, %2;" : "=r"(is_above) : "r"(value), "r"(most));  // or one is NaN
    asm("set.eq.u32.f16x2 %0, %1, %1;" : "=r"(is_number) : "r"(most));
  } else {
    asm("set.gtu.u32.bf16x2 %0, %1, %2;" : "=r"(is_above) : "r"(value), "r"(most));
    asm("set.eq.u32.bf16x2 %0, %1, %1;" : "=r"(is_number) : "r"(most));
  }
  return is_above & is_number;
}
#else
constexpr bool compares_pairs = false;

template <class T>
__device__ uint32_t is_larger_pair(uint32_t value, uint32_t most);
#endif

template <int width, class T>
__device__ Vector<T, width> largest(const Vector<T, width>& a, const Vector<T, width>& b) {
  Vector<T, width> result;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr bool are_pairs = sizeof(T) == 2;
#else
  constexpr bool are_pairs = false;
#endif
  if constexpr (are_pairs) {
    using Pairs = Vector<uint32_t, width / 2>;
    const Pairs left = bit_cast<Pairs>(a), right = bit_cast<Pairs>(b);
    Pairs pairs;
#pragma unroll
    for (int k = 0; k < width / 2; ++k) pairs.item[k] = largest_pair<T>(left.item[k], right.item[k]);
    result = bit_cast<Vector<T, width>>(pairs);
  } else {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      result.item[k] =
          static_cast<T>(largest(static_cast<compute_t<T>>(a.item[k]), static_cast<compute_t<T>>(b.item[k])));
    }
  }
  return result;
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
