// One step of an LLTM and its gradient, over ATen, as a pybind11 module.
//
// With X = [hidden, input] and the gates' pre-activations (i, o, c) = X weight^T + bias, a step is
//     new_cell   = cell + elu(c) * sigmoid(i)
//     new_hidden = tanh(new_cell) * sigmoid(o)
#include <torch/extension.h>

#include <vector>

namespace {

// The slope of elu: exp(c) up to 0, 1 above. exp is never taken of a positive number, which could overflow to inf and
// then turn into NaN wherever it is multiplied by 0.
at::Tensor elu_slope(const at::Tensor& c) { return at::exp(at::clamp_max(c, 0)); }

void check(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& hidden, const at::Tensor& cell) {
  TORCH_CHECK(input.dim() == 2 && hidden.dim() == 2, "input and hidden must be [batch, features], found ", input.dim(),
              " and ", hidden.dim(), " dimensions");
  TORCH_CHECK(hidden.sizes() == cell.sizes(), "hidden is ", hidden.sizes(), ", but cell is ", cell.sizes());
  TORCH_CHECK(
      weight.dim() == 2 && weight.size(0) == 3 * hidden.size(1) && weight.size(1) == hidden.size(1) + input.size(1),
      "weight must be [3 * state, state + input], found ", weight.sizes());
}

}  // namespace

// Returns the new hidden state and the new cell, and for the backward X and the gates.
std::vector<at::Tensor> lltm_forward(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& hidden, const at::Tensor& cell) {
  check(input, weight, hidden, cell);
  const at::Tensor x = at::cat({hidden, input}, 1);
  const at::Tensor gates = at::addmm(bias, x, weight.t());
  const std::vector<at::Tensor> part = gates.chunk(3, 1);
  const at::Tensor new_cell = cell + at::elu(part[2]) * at::sigmoid(part[0]);
  const at::Tensor new_hidden = at::tanh(new_cell) * at::sigmoid(part[1]);
  return {new_hidden, new_cell, x, gates};
}

// Returns the gradients of input, weight, bias, hidden and cell.
std::vector<at::Tensor> lltm_backward(const at::Tensor& grad_hidden, const at::Tensor& grad_cell, const at::Tensor& x,
                                      const at::Tensor& gates, const at::Tensor& new_cell, const at::Tensor& weight) {
  const std::vector<at::Tensor> part = gates.chunk(3, 1);
  const at::Tensor input_gate = at::sigmoid(part[0]);
  const at::Tensor output_gate = at::sigmoid(part[1]);
  const at::Tensor activation = at::tanh(new_cell);

  const at::Tensor to_cell = grad_cell + grad_hidden * output_gate * (1 - activation * activation);
  const at::Tensor to_i = to_cell * at::elu(part[2]) * input_gate * (1 - input_gate);
  const at::Tensor to_o = grad_hidden * activation * output_gate * (1 - output_gate);
  const at::Tensor to_c = to_cell * input_gate * elu_slope(part[2]);

  const at::Tensor to_gates = at::cat({to_i, to_o, to_c}, 1);
  const at::Tensor to_x = to_gates.mm(weight);
  const int64_t state = new_cell.size(1);
  return {to_x.slice(1, state), to_gates.t().mm(x), to_gates.sum(0), to_x.slice(1, 0, state), to_cell};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &lltm_forward, "One LLTM step: new hidden state, new cell, and what the backward needs.");
  m.def("backward", &lltm_backward, "The gradients of an LLTM step.");
}
