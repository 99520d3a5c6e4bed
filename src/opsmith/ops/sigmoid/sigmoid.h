// What sigmoid and its gradient do to one element, for sigmoid.cpp and sigmoid.cu. C is float or double.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/math.h>

namespace opsmith::ops::sigmoid {
namespace {

struct Sigmoid {
  template <class C>
  OPSMITH_HOST_DEVICE C operator()(C x) const {
    return math::sigmoid(x);
  }
};

// From y, not from x: no exponential, and nothing that overflows for any x.
struct SigmoidBackward {
  template <class C>
  OPSMITH_HOST_DEVICE C operator()(C grad_y, C y) const {
    return grad_y * ((C(1) - y) * y);
  }
};

}  // namespace
}  // namespace opsmith::ops::sigmoid
