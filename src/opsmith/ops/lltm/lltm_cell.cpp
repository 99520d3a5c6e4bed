// An LLTM step on a GPU: one kernel of its own where the products are small, else PyTorch's products beside two
// kernels.
#include "cell.h"
#include "composed.h"
#include "element_type.h"

#include <opsmith/stream.h>

using namespace opsmith;

namespace {

// Whether a kernel of our own is faster than PyTorch's products and what goes with them, by the multiply-adds of one.
bool is_forward_fused(const Tensor& cell, const Tensor& weight) {
  return cell.size(0) * weight.numel() <= int64_t{1} << 24;
}

template <class T>
bool is_backward_fused(const Tensor& cell, const Tensor& weight) {
  return cell.size(1) <= lltm::most_fused_state<T> && cell.size(0) * weight.numel() <= int64_t{1} << 22;
}

Tensor like(const Tensor& tensor) {
  return empty_like(tensor, std::vector<int64_t>(tensor.sizes().begin(), tensor.sizes().end()));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lltm_cell(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                             const Tensor& weight, const Tensor& bias) {
  const bool fused = is_forward_fused(cell, weight);
  const Tensor new_hidden = like(cell), new_cell = like(cell);
  // One product over [hidden, input] instead of two: small products are bound by their launch.
  const Tensor gates =
      fused ? empty_like(cell, {cell.size(0), 3 * cell.size(1)})
            : lltm::composed::product(lltm::composed::join(hidden, input), torch::stable::transpose(weight, 0, 1));
  lltm::with_element_type(cell.scalar_type(), [&](auto element) {
    using T = decltype(element);
    const lltm::Forward<T> step{
        .input = view<const T, 2>(input),
        .hidden = view<const T, 2>(hidden),
        .cell = view<const T, 2>(cell),
        .weight = view<const T, 2>(weight),
        .bias = view<const T, 1>(bias),
        .new_hidden = view<T, 2>(new_hidden),
        .new_cell = view<T, 2>(new_cell),
        .gates = view<T, 2>(gates),
    };
    void* const stream = current_stream(cell.get_device_index());
    fused ? lltm::fused_forward(step, stream) : lltm::finish_forward(step, stream);
  });
  return {new_hidden, new_cell, gates};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lltm_cell_backward(const Tensor& grad_new_hidden,
                                                                      const Tensor& grad_new_cell, const Tensor& input,
                                                                      const Tensor& hidden, const Tensor& cell,
                                                                      const Tensor& weight, const Tensor& bias,
                                                                      const Tensor& gates, const Tensor& new_cell) {
  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> results;
  lltm::with_element_type(cell.scalar_type(), [&](auto element) {
    using T = decltype(element);
    void* const stream = current_stream(cell.get_device_index());
    const Tensor grad_cell = like(cell), grad_bias = like(bias);
    lltm::Backward<T> step{
        .grad_new_hidden = view<const T, 2>(grad_new_hidden),
        .grad_new_cell = view<const T, 2>(grad_new_cell),
        .input = view<const T, 2>(input),
        .hidden = view<const T, 2>(hidden),
        .weight = view<const T, 2>(weight),
        .gates = view<const T, 2>(gates),
        .new_cell = view<const T, 2>(new_cell),
        .grad_cell = view<T, 2>(grad_cell),
        .grad_bias = view<T, 1>(grad_bias),
    };
    if (is_backward_fused<T>(cell, weight)) {
      const Tensor grad_input = like(input), grad_hidden = like(hidden), grad_weight = like(weight);
      step.grad_input = view<T, 2>(grad_input);
      step.grad_hidden = view<T, 2>(grad_hidden);
      step.grad_weight = view<T, 2>(grad_weight);
      lltm::fused_backward(step, stream);
      results = {grad_input, grad_hidden, grad_cell, grad_weight, grad_bias};
      return;
    }
    using C = compute_t<T>;
    const int64_t parts = lltm::bias_parts(cell.size(0), cell.size(1));
    const Tensor partial = torch::stable::new_empty(bias, {parts > 1 ? parts : 0, bias.size(0)},
                                                    sizeof(C) == 8 ? ScalarType::Double : ScalarType::Float);
    const Tensor grad_gates = like(gates);
    lltm::start_backward(step, view<T, 2>(grad_gates), view<C, 2>(partial), stream);
    const auto [grad_input, grad_hidden, grad_weight] =
        lltm::composed::backward_products(grad_gates, input, hidden, weight);
    results = {grad_input, grad_hidden, grad_cell, grad_weight, grad_bias};
  });
  return results;
}
