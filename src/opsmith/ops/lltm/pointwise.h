// The pointwise part of an LLTM step and its gradient, for one element: shared by gates.cpp and gates.cu.
//
// i, o and c are the input gate, the output gate and the candidate before their activations. C is float or double.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/math.h>

namespace opsmith::ops::lltm {
namespace {

template <class C>
struct LltmState {
  C hidden;
  C cell;
};

template <class C>
OPSMITH_HOST_DEVICE LltmState<C> lltm_step(C i, C o, C c, C cell) {
  namespace math = math;
  const C new_cell = cell + math::elu(c) * math::sigmoid(i);
  return {math::tanh(new_cell) * math::sigmoid(o), new_cell};
}

template <class C>
struct LltmGradient {
  C i;
  C o;
  C c;
  C cell;
};

template <class C>
OPSMITH_HOST_DEVICE LltmGradient<C> lltm_step_backward(C grad_hidden, C grad_new_cell, C i, C o, C c, C new_cell) {
  namespace math = math;
  const C input_gate = math::sigmoid(i);
  const C output_gate = math::sigmoid(o);
  const C activation = math::tanh(new_cell);
  // 1 - sigmoid(z) is sigmoid(-z), which keeps its digits where the gate is almost 1 and costs no second exponential.
  const C input_slope = input_gate * math::sigmoid(-i);
  const C output_slope = output_gate * math::sigmoid(-o);
  // elu's slope is exp(c) up to 0 and 1 above, which is exp(0): never taken where it could overflow.
  const C candidate_slope = math::exp(c > C(0) ? C(0) : c);
  const C grad_cell = grad_new_cell + grad_hidden * output_gate * (C(1) - activation * activation);
  // A gate's slope comes first: it is 0 where the gate is saturated, and no factor may overflow before it meets that 0.
  return {grad_cell * input_slope * math::elu(c), grad_hidden * activation * output_slope,
          grad_cell * input_gate * candidate_slope, grad_cell};
}

}  // namespace
}  // namespace opsmith::ops::lltm
