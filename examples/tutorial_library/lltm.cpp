// One step of an LLTM as a PyTorch operator, with its gradient in C++: the library alone is all that is needed.
//
// With X = [hidden, input] and the gates' pre-activations (i, o, c) = X weight^T + bias, a step is
//     new_cell   = cell + elu(c) * sigmoid(i)
//     new_hidden = tanh(new_cell) * sigmoid(o)
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::tuple<Tensor, Tensor> lltm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& hidden,
                                const Tensor& cell) {
  TORCH_CHECK(hidden.sizes() == cell.sizes(), "lltm: hidden is ", hidden.sizes(), ", but cell is ", cell.sizes());
  const auto gates = at::addmm(bias, at::cat({hidden, input}, 1), weight.t()).chunk(3, 1);
  Tensor new_cell = cell + at::elu(gates[2]) * at::sigmoid(gates[0]);
  Tensor new_hidden = at::tanh(new_cell) * at::sigmoid(gates[1]);
  return {new_hidden, new_cell};
}

std::tuple<Tensor, Tensor> call_lltm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                     const Tensor& hidden, const Tensor& cell) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("lltm_tutorial::lltm", "").typed<decltype(lltm)>();
  return op.call(input, weight, bias, hidden, cell);
}

struct Lltm : torch::autograd::Function<Lltm> {
  static variable_list forward(AutogradContext* ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                               const Tensor& hidden, const Tensor& cell) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    ctx->save_for_backward({input, weight, bias, hidden, cell});
    auto [new_hidden, new_cell] = call_lltm(input, weight, bias, hidden, cell);
    return {new_hidden, new_cell};
  }

  // The gates are computed again from the inputs. That costs a matrix product, and makes the gradient differentiable in
  // its turn: all that stands here is a function of what autograd knows.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &bias = saved[2], &hidden = saved[3], &cell = saved[4];
    const Tensor grad_hidden = grads[0].defined() ? grads[0] : at::zeros_like(hidden);
    const Tensor grad_cell = grads[1].defined() ? grads[1] : at::zeros_like(cell);

    const Tensor x = at::cat({hidden, input}, 1);
    const auto gates = at::addmm(bias, x, weight.t()).chunk(3, 1);
    const Tensor input_gate = at::sigmoid(gates[0]);
    const Tensor output_gate = at::sigmoid(gates[1]);
    const Tensor candidate = at::elu(gates[2]);
    const Tensor activation = at::tanh(cell + candidate * input_gate);

    const Tensor to_cell = grad_cell + grad_hidden * output_gate * (1 - activation * activation);
    const Tensor to_i = to_cell * candidate * input_gate * (1 - input_gate);
    const Tensor to_o = grad_hidden * activation * output_gate * (1 - output_gate);
    // elu's slope is exp(c) up to 0 and 1 above. exp of a positive c could overflow, and inf * 0 is NaN.
    const Tensor to_c = to_cell * input_gate * at::exp(at::clamp_max(gates[2], 0));

    const Tensor to_gates = at::cat({to_i, to_o, to_c}, 1);
    const Tensor to_x = to_gates.mm(weight);
    const int64_t state = hidden.size(1);
    return {to_x.slice(1, state), to_gates.t().mm(x), to_gates.sum(0), to_x.slice(1, 0, state), to_cell};
  }
};

std::tuple<Tensor, Tensor> lltm_autograd(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                         const Tensor& hidden, const Tensor& cell) {
  const variable_list outputs = Lltm::apply(input, weight, bias, hidden, cell);
  return {outputs[0], outputs[1]};
}

}  // namespace

TORCH_LIBRARY(lltm_tutorial, m) {
  m.def("lltm(Tensor input, Tensor weight, Tensor bias, Tensor hidden, Tensor cell) -> (Tensor, Tensor)",
        {at::Tag::pt2_compliant_tag});
}

// Nothing but ATen's operators is called, so one kernel serves every device, and the meta device of torch.compile too.
TORCH_LIBRARY_IMPL(lltm_tutorial, CompositeExplicitAutograd, m) { m.impl("lltm", &lltm); }

TORCH_LIBRARY_IMPL(lltm_tutorial, Autograd, m) { m.impl("lltm", &lltm_autograd); }
