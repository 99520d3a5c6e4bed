// A float as the sum of two numbers of TF32, so that tensor cores multiply it as exactly as the other cores do.
#pragma once

#include "../_gpu/tensor_cores.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// Two numbers that TF32 has, for a float: the first 11 bits, and the next, whose sign is the same. The second is not
// zero where the float is not, and is infinite where it is: so products with infinity are what they are of floats.
__device__ inline void split_float(uint32_t bits, uint32_t& large, uint32_t& small) {
  const float value = bit_cast<float>(bits);
  large = bits & 0xffffe000u;
  const float left = fmaxf(fabsf(value - bit_cast<float>(large)), fabsf(value) * 0x1p-40f);
  small = bit_cast<uint32_t>(gpu::round_to_tf32(copysignf(left, value)));
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
