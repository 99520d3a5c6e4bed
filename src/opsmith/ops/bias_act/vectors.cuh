// What a thread of bias_act's kernels does with the vectors that it has.
#pragma once

#include <type_traits>

#include "../_filters/activations.h"

namespace opsmith::ops::bias_act {
namespace {

using filters::Elu, filters::LeakyRelu, filters::no_bias, filters::Relu, filters::Sigmoid, filters::Softplus,
    filters::Swish, filters::Tanh;

// Whether f is of a gradient, x and b, and not of x and b.
template <class T, class F>
constexpr bool is_backward = std::is_invocable_v<F, compute_t<T>, compute_t<T>, compute_t<T>>;

// How many vectors a thread loads before it computes.
constexpr int at_once = 2;

// How many it takes at most. Few: then the blocks at work are next to each other in memory, and the bandwidth of an
// H200 is 4.17 TB/s where with 16 of them it is 3.97 (float32, forward). 16-bit types have twice the work in a vector,
// and share what a thread has to do once among four.
template <class T, class F>
constexpr int most_vectors = is_backward<T, F> || sizeof(T) <= 2 ? 4 : 2;

// ... where blocks leave sums for the bias' gradient that are a part of all there is to read and write. A float's sum
// stays short.
constexpr int most_summed = 32;

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
  const auto each = [&](const auto& function) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      if constexpr (is_backward<T, F>) {
        exact[k] = function(static_cast<C>(grad.item[k]), static_cast<C>(x.item[k]), bias[k]);
      } else {
        exact[k] = function(static_cast<C>(x.item[k]), bias[k]);
      }
    }
  };
  // Asked once for a vector: the limit, which few have, would be a third of leaky ReLU's instructions.
  if (f.output.is_limited()) {
    each(f);
  } else {
    each([&](auto... values) { return f.unlimited(values...); });
  }
  return rounded<T>(exact);
}

// Vectors of `width` elements that lie `step` elements apart.
template <class T, int width>
struct Line {
  T* first;
  int64_t step;

  __device__ auto& operator[](int i) const {
    using Element = Vector<std::remove_const_t<T>, width>;
    return *reinterpret_cast<std::conditional_t<std::is_const_v<T>, const Element, Element>*>(first + i * step);
  }
};

// out[i] = f(grad[i], x[i], bias) or f(x[i], bias) for i < n. `sum` is given each vector of results before rounding.
template <class T, int width, class F, class Sum>
__device__ void map_line(const F& f, int n, Line<const T, width> grad, Line<const T, width> x, Line<T, width> out,
                         const compute_t<T> (&bias)[width], const Sum& sum) {
#pragma unroll 1
  for (int i = 0; i < n; i += at_once) {
    Vector<T, width> values[at_once], grads[at_once];
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      if (i + j < n) {
        values[j] = x[j];
        if constexpr (is_backward<T, F>) grads[j] = grad[j];
      }
    }
#pragma unroll
    for (int j = 0; j < at_once; ++j) {
      if (i + j < n) {
        compute_t<T> exact[width];
        out[j] = apply(f, grads[j], values[j], bias, exact);
        sum(exact);
      }
    }
    grad.first += at_once * grad.step, x.first += at_once * x.step, out.first += at_once * out.step;
  }
}

}  // namespace
}  // namespace opsmith::ops::bias_act
