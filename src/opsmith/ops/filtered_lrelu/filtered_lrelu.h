// What filtered_lrelu does, for all of its kernels: two filters, and a nonlinearity between them.
//
// u = up^2 upfirdn(x + b, fu, up, padding) and y = upfirdn(act(u), fd, down). Both filters are upfirdn2d's, so the
// gradient is their two transposed filters with a slope between them:
// grad_x = transposed(fu)(act'(u) * transposed(fd)(grad_y)).
#pragma once

#include <initializer_list>

#include "../_filters/activations.h"
#include "../_filters/filtering.h"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::Axis, filters::Backward, filters::Filtering, filters::Forward, filters::LeakyRelu, filters::no_bias,
    filters::Output, filters::read_arguments;

// The two filters of a call. Of u there are the samples that y is made of: from 0 on, whatever y's first sample is.
struct Filters {
  Filtering up, down;
};

// What the operators are told of the filters, and of what is between them, as sized.py declares it.
struct Oversampling {
  int64_t out_height, out_width, up, down, pad_y, pad_x;
  bool separable_up, separable_down, flip;
};

struct Activation {
  double gain, slope;
  Optional<double> clamp;
};

// The filters of a call for images of a size.
inline Filters read_filters(const View<const float, 2>& fu, const View<const float, 2>& fd, int64_t height,
                            int64_t width, const Oversampling& call) {
  const int64_t up = call.up, down = call.down;
  Filtering second = read_arguments(
      fd, {0, 0, call.out_height, call.out_width, 1, 1, down, down, 0, 0, call.separable_down, call.flip, 1.0});
  for (Axis* axis : {&second.y, &second.x}) axis->in = ((axis->out > 1 ? axis->out : 1) - 1) * down + axis->taps;
  return {read_arguments(fu, {height, width, second.y.in, second.x.in, up, up, 1, 1, call.pad_y, call.pad_x,
                              call.separable_up, call.flip, static_cast<double>(up * up)}),
          second};
}

// gain * lrelu(u), clamped.
template <class C>
struct Activate {
  Forward<C, LeakyRelu<C>> act;

  explicit Activate(const Activation& call) : act{{static_cast<C>(call.slope)}, Output<C>(call.gain, call.clamp)} {}

  OPSMITH_HOST_DEVICE C operator()(C u) const { return act(u, no_bias<C>); }
};

// The gradient by u.
template <class C>
struct Differentiate {
  Backward<C, LeakyRelu<C>> act;

  explicit Differentiate(const Activation& call)
      : act{{static_cast<C>(call.slope)}, Output<C>(call.gain, call.clamp)} {}

  OPSMITH_HOST_DEVICE C operator()(C grad, C u) const { return act(grad, u, no_bias<C>); }
  OPSMITH_HOST_DEVICE bool is_limited() const { return act.output.is_limited(); }
  // The same where it is not.
  OPSMITH_HOST_DEVICE C unlimited(C grad, C u) const { return act.unlimited(grad, u, no_bias<C>); }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
