// What a thread of bias_act's kernels does with the vectors that it has.
#pragma once

#include <type_traits>

#include "activations.h"

namespace {

using namespace opsmith;

// How many vectors a thread starts to load before it computes. One of 16 bytes for each of two inputs is enough, and so
// is one of a 32-bit type; a function of one 16-bit input has twice the work for each (see elementwise.h).
template <class T, bool is_backward>
constexpr int at_once = !is_backward && sizeof(T) <= 2 ? 2 : 1;

// For single elements, float64 and odd layouts: the activation is chosen for each element, and compiled once.
template <class C>
struct AnyActivation {
  enum Kind { leaky_relu, relu, tanh, sigmoid, elu, softplus, swish } kind;
  C a, b;

  AnyActivation(LeakyRelu<C> f) : kind(leaky_relu), a(f.alpha), b(0) {}
  AnyActivation(Relu<C>) : kind(relu), a(0), b(0) {}
  AnyActivation(Tanh<C>) : kind(tanh), a(0), b(0) {}
  AnyActivation(Sigmoid<C>) : kind(sigmoid), a(0), b(0) {}
  AnyActivation(Elu<C> f) : kind(elu), a(f.scale), b(f.alpha) {}
  AnyActivation(Softplus<C>) : kind(softplus), a(0), b(0) {}
  AnyActivation(Swish<C>) : kind(swish), a(0), b(0) {}

  template <class F>
  __device__ C with(const F& f) const {
    switch (kind) {
      case leaky_relu:
        return f(LeakyRelu<C>{a});
      case relu:
        return f(Relu<C>{});
      case tanh:
        return f(Tanh<C>{});
      case sigmoid:
        return f(Sigmoid<C>{});
      case elu:
        return f(Elu<C>{a, b});
      case softplus:
        return f(Softplus<C>{});
      default:
        return f(Swish<C>{});
    }
  }
  __device__ C value(C u) const {
    return with([u](auto f) { return f.value(u); });
  }
  __device__ C slope(C u) const {
    return with([u](auto f) { return f.slope(u); });
  }
};

template <class T>
__device__ compute_t<T> bias_of(const View<const T, 1>& b, int64_t channel) {
  return b ? static_cast<compute_t<T>>(b(channel)) : no_bias<compute_t<T>>;
}

// f on one vector; `grad` is not looked at on the way forward. What the results are before rounding goes to `exact`.
template <class T, int width, class F>
__device__ Vector<T, width> apply(const F& f, const Vector<T, width> grad, const Vector<T, width> x,
                                  const compute_t<T> (&bias)[width], compute_t<T> (&exact)[width]) {
  using C = compute_t<T>;
  Vector<T, width> out;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    if constexpr (std::is_invocable_v<F, C, C, C>) {
      exact[k] = f(static_cast<C>(grad.item[k]), static_cast<C>(x.item[k]), bias[k]);
    } else {
      exact[k] = f(static_cast<C>(x.item[k]), bias[k]);
    }
    out.item[k] = static_cast<T>(exact[k]);
  }
  return out;
}

// The vector of a tensor [N, C, L], or of a matrix, that begins at the last index times its width.
template <int width, class T, int rank, class... Index>
__device__ auto& vector_at(const View<T, rank>& tensor, Index... index) {
  using Element = std::conditional_t<std::is_const_v<T>, const Vector<std::remove_const_t<T>, width>, Vector<T, width>>;
  return *reinterpret_cast<Element*>(&tensor(index...));
}

}  // namespace
