// An LLTM step on a GPU: PyTorch's matrix products and the kernels of lltm_gates.
#include "composed.h"

using opsmith::Tensor;

std::tuple<Tensor, Tensor, Tensor> lltm_cell(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                             const Tensor& weight, const Tensor& bias) {
  return lltm::composed::forward(input, hidden, cell, weight, bias);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lltm_cell_backward(const Tensor& grad_new_hidden,
                                                                      const Tensor& grad_new_cell, const Tensor& input,
                                                                      const Tensor& hidden, const Tensor& /*cell*/,
                                                                      const Tensor& weight, const Tensor& /*bias*/,
                                                                      const Tensor& gates, const Tensor& new_cell) {
  return lltm::composed::backward(grad_new_hidden, grad_new_cell, input, hidden, weight, gates, new_cell);
}
