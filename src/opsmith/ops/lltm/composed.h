// An LLTM step around PyTorch's matrix products: on the CPU for what is too large for products of our own. A GPU takes
// the products alone, and kernels that do more than the operator lltm_gates, which is the pointwise part here.
#pragma once

#include <opsmith/native.h>

namespace opsmith::ops::lltm::composed {

namespace aten = opsmith::aten;

inline Tensor join(const Tensor& hidden, const Tensor& input) {
  return call<1>("aten::cat", "", std::vector<Tensor>{hidden, input}, int64_t{1})[0];
}

inline Tensor columns(const Tensor& matrix, int64_t begin, int64_t count) {
  return call<1>("aten::narrow", "", matrix, int64_t{1}, begin, count)[0];
}

inline std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                                  const Tensor& weight, const Tensor& bias) {
  // One product over [hidden, input] instead of two: small products are bound by their launch.
  const Tensor gates = aten::linear(join(hidden, input), weight, bias);
  const auto [new_hidden, new_cell] = call<2>("opsmith::lltm_gates", "", gates, cell);
  return {new_hidden, new_cell, gates};
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> backward(const Tensor& grad_new_hidden,
                                                                   const Tensor& grad_new_cell, const Tensor& input,
                                                                   const Tensor& hidden, const Tensor& weight,
                                                                   const Tensor& gates, const Tensor& new_cell) {
  const auto [grad_gates, grad_cell] =
      call<2>("opsmith::lltm_gates_backward", "", grad_new_hidden, grad_new_cell, gates, new_cell);
  // Two products, because the gradients of hidden and input are tensors of their own, not halves of one.
  const int64_t state = hidden.size(1);
  const Tensor grad_hidden = aten::mm(grad_gates, columns(weight, 0, state));
  const Tensor grad_input = aten::mm(grad_gates, columns(weight, state, input.size(1)));
  const Tensor grad_weight = aten::mm(aten::transposed(grad_gates), join(hidden, input));
  return {grad_input, grad_hidden, grad_cell, grad_weight, aten::sum_rows(grad_gates)};
}

}  // namespace opsmith::ops::lltm::composed
