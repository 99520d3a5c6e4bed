// What bias_act does to one element, for all of its kernels. C is float or double.
//
// With u = x + b the result is  y = gain act(u),  clamped to [-limit, limit], and its derivative by x (and b) is
// gain act'(u), or 0 where y reaches the limit. u and y are computed again for the gradient: whether y was clamped is
// decided before it is rounded to a 16-bit type. Each formula keeps its digits where the result is small, and none has
// inf - inf or inf / inf for a finite u.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/math.h>

namespace opsmith::ops::filters {
namespace {

// What is added where there is no bias: x + -0 is x, also for x = -0.
template <class C>
constexpr C no_bias = C(-0.0);

// lrelu, and linear for alpha = 1. Every slope at 0 is that from the left; it, and the slope at NaN, are PyTorch's.
template <class C>
struct LeakyRelu {
  C alpha;

  OPSMITH_HOST_DEVICE C value(C u) const { return u > C(0) ? u : alpha * u; }
  OPSMITH_HOST_DEVICE C slope(C u) const { return u > C(0) ? C(1) : alpha; }
};

// Not the above for alpha = 0, which makes a NaN of -inf. This keeps a NaN.
template <class C>
struct Relu {
  OPSMITH_HOST_DEVICE C value(C u) const { return u < C(0) ? C(0) : u; }
  OPSMITH_HOST_DEVICE C slope(C u) const { return u <= C(0) ? C(0) : C(1); }
};

template <class C>
struct Tanh {
  OPSMITH_HOST_DEVICE C value(C u) const { return math::tanh(u); }
  // 1 - tanh^2, which has no digits left where tanh is near 1.
  OPSMITH_HOST_DEVICE C slope(C u) const {
    const C e = math::exp(C(-2) * math::abs(u));
    return C(4) * e / ((C(1) + e) * (C(1) + e));
  }
};

template <class C>
struct Sigmoid {
  OPSMITH_HOST_DEVICE C value(C u) const { return math::sigmoid(u); }
  OPSMITH_HOST_DEVICE C slope(C u) const {
    const C e = math::exp(-math::abs(u));
    return e / ((C(1) + e) * (C(1) + e));
  }
};

// elu for factors of 1; selu has its two.
template <class C>
struct Elu {
  C scale, alpha;

  OPSMITH_HOST_DEVICE C value(C u) const { return scale * (u > C(0) ? u : alpha * math::expm1(u)); }
  OPSMITH_HOST_DEVICE C slope(C u) const { return scale * (u > C(0) ? C(1) : alpha * math::exp(u)); }
};

// log(1 + exp(u)), from an exponential that cannot overflow.
template <class C>
struct Softplus {
  OPSMITH_HOST_DEVICE C value(C u) const {
    const C tail = math::log1p(math::exp(-math::abs(u)));
    return (u > C(0) ? u : C(0)) + tail;
  }
  OPSMITH_HOST_DEVICE C slope(C u) const { return math::sigmoid(u); }
};

template <class C>
struct Swish {
  OPSMITH_HOST_DEVICE C value(C u) const { return u * math::sigmoid(u); }
  OPSMITH_HOST_DEVICE C slope(C u) const { return math::sigmoid(u) * (C(1) + u * math::sigmoid(-u)); }
};

// The numbers behind the activation. A limit of infinity clamps nothing.
template <class C>
struct Output {
  C gain, limit;

  Output(double gain, const Optional<double>& clamp)
      : gain(static_cast<C>(gain)), limit(clamp ? static_cast<C>(*clamp) : static_cast<C>(__builtin_inf())) {
    if (clamp && !(*clamp >= 0)) fail("clamp must not be below 0; it is ", *clamp);
  }

  OPSMITH_HOST_DEVICE bool is_limited() const { return limit < static_cast<C>(__builtin_inf()); }
};

// y of x and b. A NaN is not clamped. `unlimited` is for a limit of infinity.
template <class C, class Activation>
struct Forward {
  Activation act;
  Output<C> output;

  OPSMITH_HOST_DEVICE C unlimited(C x, C b) const { return output.gain * act.value(x + b); }
  OPSMITH_HOST_DEVICE C operator()(C x, C b) const {
    // One behind the other: for one inside of the other GPUs branch.
    const C y = unlimited(x, b), below = y > output.limit ? output.limit : y;
    return below < -output.limit ? -output.limit : below;
  }
};

// The gradient by x of the gradient by y, x and b.
template <class C, class Activation>
struct Backward {
  Activation act;
  Output<C> output;

  OPSMITH_HOST_DEVICE C unlimited(C grad, C x, C b) const { return grad * (output.gain * act.slope(x + b)); }
  OPSMITH_HOST_DEVICE C operator()(C grad, C x, C b) const {
    // The same for all elements: a loop does without the activation where nothing is clamped.
    const C y = output.is_limited() ? output.gain * act.value(x + b) : C(0);
    const C result = unlimited(grad, x, b);
    return math::abs(y) >= output.limit ? C(0) : result;
  }
};

// Calls f with the activation of a name.
template <class C, class F>
void with_activation(const char* name, double alpha, const F& f) {
  const auto is = [name](const char* other) { return __builtin_strcmp(name, other) == 0; };
  if (is("linear")) return f(LeakyRelu<C>{C(1)});
  if (is("relu")) return f(Relu<C>{});
  if (is("lrelu")) return f(LeakyRelu<C>{static_cast<C>(alpha)});
  if (is("tanh")) return f(Tanh<C>{});
  if (is("sigmoid")) return f(Sigmoid<C>{});
  if (is("elu")) return f(Elu<C>{C(1), C(1)});
  // Klambauer et al., "Self-Normalizing Neural Networks", NeurIPS 2017, equation 14.
  if (is("selu")) return f(Elu<C>{C(1.0507009873554804934193349852946), C(1.6732632423543772848170429916717)});
  if (is("softplus")) return f(Softplus<C>{});
  if (is("swish")) return f(Swish<C>{});
  fail("act is none of linear, relu, lrelu, tanh, sigmoid, elu, selu, softplus, swish");
}

}  // namespace
}  // namespace opsmith::ops::filters
