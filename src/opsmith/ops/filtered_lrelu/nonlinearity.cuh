// What happens at u: leaky ReLU, gain and limit for a number, or its gradient, in few instructions.
#pragma once

#include <opsmith/math.h>

#include "filtered_lrelu.h"

namespace opsmith::ops::filtered_lrelu {
namespace {

struct Nonlinearity {
  float positive, negative, limit;

  __device__ explicit Nonlinearity(const Activate<float>& act)
      : positive(act.act.output.gain), negative(positive * act.act.act.alpha), limit(act.act.output.limit) {}
  // Nothing reaches a limit that is NaN.
  __device__ explicit Nonlinearity(const Differentiate<float>& act)
      : positive(act.act.output.gain),
        negative(positive * act.act.act.alpha),
        limit(act.is_limited() ? act.act.output.limit : NAN) {}

  // A NaN stays one.
  __device__ float value(float u) const {
    const float y = (u > 0 ? positive : negative) * u;
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

  // 0 where there is no u.
  __device__ float gradient(float grad, float u, bool is_inside) const {
    const float slope = u > 0 ? positive : negative, result = grad * slope;
    return math::abs(slope * u) >= limit || !is_inside ? 0.0f : result;
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
