// What happens at u: leaky ReLU, gain and limit for a number, or its gradient, in few instructions.
#pragma once

#include <opsmith/math.h>

#include "signs.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

struct Nonlinearity {
  float positive, negative, limit;
  float reached;  // from here on nothing flows back; nothing reaches a limit that is NaN

  explicit Nonlinearity(const Activate<float>& act)
      : positive(act.act.output.gain),
        negative(positive * act.act.act.alpha),
        limit(act.act.output.limit),
        reached(act.act.output.is_limited() ? limit : NAN) {}

  // A NaN stays one.
  __device__ float value(float u) const { return limited((u > 0 ? positive : negative) * u); }

  // With what the gradient needs to know, at a place of a block of signs.
  __device__ float value(float u, uint32_t& bits, int place) const {
    const float y = (u > 0 ? positive : negative) * u;
    const uint32_t sign = u > 0 ? is_positive << place : 0;
    bits += math::abs(y) >= reached ? is_blocked << place : sign;
    return limited(y);
  }

  __device__ float gradient(float grad, uint32_t bits, int place) const {
    const float result = grad * ((bits & is_positive << place) != 0 ? positive : negative);
    return (bits & is_blocked << place) != 0 ? 0.0f : result;
  }

 private:
  __device__ float limited(float y) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float below, above;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(below) : "f"(y), "f"(limit));
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(above) : "f"(below), "f"(-limit));
    return above;
#else
    const float below = y > limit ? limit : y;
    return below < -limit ? -limit : below;
#endif
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
