// The 16-bit floating-point types as kernels see them, and the type to compute in for each element type.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace opsmith {

// The bits of one type read as another of the same size.
template <class To, class From>
OPSMITH_HOST_DEVICE To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast needs two types of one size");
  To to;
#if defined(__CUDACC_RTC__)  // which does not have a host compiler's builtins
  memcpy(&to, &from, sizeof(To));
#else
  __builtin_memcpy(&to, &from, sizeof(To));
#endif
  return to;
}

namespace detail {

// The four conversions on the host. They have no branches and no calls, so that loops over them vectorise for any
// instruction set. F16C's scalar instructions are left alone on purpose: with g++ 12 they keep a loop scalar, and the
// vectorised integer code takes half their time. Rounding is to nearest, ties to even. A NaN stays a NaN, becomes quiet
// and keeps its sign and the payload bits that fit, as the processors' own instructions do it.

OPSMITH_HOST_DEVICE float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t shifted = magnitude << 13;  // exponent and mantissa at their places, the exponent's bias still 15
  const uint32_t normal = shifted + (112u << 23);
  const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
  const uint32_t special = (shifted + (224u << 23)) | quiet;
  // A subnormal half is its mantissa times 2^-24. Converting the integer keeps this right when the processor is set to
  // flush subnormal floats to zero (torch.set_flush_denormal).
  const uint32_t subnormal = bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
  return bit_cast<float>(sign | (magnitude >= 0x7c00u ? special : finite));
}

OPSMITH_HOST_DEVICE uint16_t float_to_half(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: move the exponent's bias, then add just under half of the last place, or half where it is odd.
  const uint32_t normal = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results: next to 0.5 the last place of a float is 2^-24, a half's last place, so the addition rounds.
  const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  const uint32_t small = magnitude < 0x38800000u ? subnormal : normal;  // below 2^-14
  const uint32_t finite = magnitude >= 0x477ff000u ? 0x7c00u : small;   // from 65520 on it rounds to infinity
  const uint32_t result = magnitude > 0x7f800000u ? nan : finite;
  return static_cast<uint16_t>(sign | result);
}

OPSMITH_HOST_DEVICE float bfloat_to_float(uint16_t bfloat) {
  return bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

OPSMITH_HOST_DEVICE uint16_t float_to_bfloat(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

}  // namespace detail

// IEEE 754 binary16, to be stored only: it converts to float by itself, and back where one asks for it.
struct float16 {
  uint16_t bits;

  float16() = default;

  OPSMITH_HOST_DEVICE explicit float16(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#elif defined(__HIP_DEVICE_COMPILE__)
    bits = bit_cast<uint16_t>(static_cast<_Float16>(value));
#else
    bits = detail::float_to_half(value);
#endif
  }

  OPSMITH_HOST_DEVICE operator float() const {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#elif defined(__HIP_DEVICE_COMPILE__)
    return static_cast<float>(bit_cast<_Float16>(bits));
#else
    return detail::half_to_float(bits);
#endif
  }
};

// The upper half of a float: its range with 8 bits of precision. Stored only, like float16.
struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;

  OPSMITH_HOST_DEVICE explicit bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // older chips have no such instruction
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    bits = detail::float_to_bfloat(value);
#endif
  }

  OPSMITH_HOST_DEVICE operator float() const { return detail::bfloat_to_float(bits); }
};

namespace detail {
template <class T>
struct Compute {
  using type = T;
};
template <>
struct Compute<float16> {
  using type = float;
};
template <>
struct Compute<bfloat16> {
  using type = float;
};
}  // namespace detail

// The type to do a kernel's arithmetic in: float for the 16-bit types, T itself for every other.
template <class T>
using compute_t = typename detail::Compute<T>::type;

}  // namespace opsmith
