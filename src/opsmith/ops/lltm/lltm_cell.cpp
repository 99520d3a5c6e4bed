// An LLTM step on a GPU: one kernel of its own where the products are small, else PyTorch's products between kernels.
#include "cell.h"
#include "composed.h"
#include "element_type.h"

#include <opsmith/stream.h>
#include <algorithm>

using namespace opsmith;

namespace {

// Up to how many multiply-adds of one product kernels of our own are faster than PyTorch's products and what goes with
// them, on an H200. PyTorch's have tensor cores for the 16-bit types, and get slower with small sums for the others.
int64_t most_fused_forward(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Double ? int64_t{1} << 27 : int64_t{1} << 25;
}

constexpr int64_t most_fused_backward = int64_t{1} << 24;

int64_t multiply_adds(const Tensor& cell, const Tensor& weight) { return cell.size(0) * weight.numel(); }

template <class T>
bool is_backward_fused(const Tensor& cell, const Tensor& weight) {
  return std::max(cell.size(0), cell.size(1)) <= lltm::most_fused<T> &&
         multiply_adds(cell, weight) <= most_fused_backward;
}

Tensor like(const Tensor& tensor) {
  return empty_like(tensor, std::vector<int64_t>(tensor.sizes().begin(), tensor.sizes().end()));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lltm_cell(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                             const Tensor& weight, const Tensor& bias) {
  namespace composed = lltm::composed;
  const bool fused = multiply_adds(cell, weight) <= most_fused_forward(cell.scalar_type());
  const Tensor new_hidden = like(cell), new_cell = like(cell);
  const Tensor gates = fused ? empty_like(cell, {cell.size(0), 3 * cell.size(1)})
                             : composed::product(composed::join(hidden, input), torch::stable::transpose(weight, 0, 1));
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
  const Tensor grad_input = like(input), grad_hidden = like(hidden), grad_cell = like(cell), grad_bias = like(bias);
  Tensor grad_weight;
  lltm::with_element_type(cell.scalar_type(), [&](auto element) {
    using T = decltype(element);
    using C = compute_t<T>;
    void* const stream = current_stream(cell.get_device_index());
    lltm::Backward<T> step{
        .grad_new_hidden = view<const T, 2>(grad_new_hidden),
        .grad_new_cell = view<const T, 2>(grad_new_cell),
        .input = view<const T, 2>(input),
        .hidden = view<const T, 2>(hidden),
        .weight = view<const T, 2>(weight),
        .gates = view<const T, 2>(gates),
        .new_cell = view<const T, 2>(new_cell),
        .grad_input = view<T, 2>(grad_input),
        .grad_hidden = view<T, 2>(grad_hidden),
        .grad_cell = view<T, 2>(grad_cell),
        .grad_weight = {},
        .grad_bias = view<T, 1>(grad_bias),
    };
    if (is_backward_fused<T>(cell, weight)) {
      grad_weight = like(weight);
      step.grad_weight = view<T, 2>(grad_weight);
      lltm::fused_backward(step, stream);
      return;
    }
    const int64_t batch = cell.size(0), parts = lltm::bias_parts(batch, cell.size(1));
    const ScalarType wide = sizeof(C) == 8 ? ScalarType::Double : ScalarType::Float;
    const Tensor partial = torch::stable::new_empty(bias, {parts > 1 ? parts : 0, bias.size(0)}, wide);
    const Tensor grad_gates = like(gates), joined = empty_like(cell, {batch, weight.size(1)});
    lltm::start_backward(step, view<T, 2>(grad_gates), view<T, 2>(joined), view<C, 2>(partial), stream);
    const Tensor grad_joined = lltm::composed::product(grad_gates, weight);
    lltm::finish_backward(step, view<const T, 2>(grad_joined), stream);
    grad_weight = lltm::composed::product(torch::stable::transpose(grad_gates, 0, 1), joined);
  });
  return {grad_input, grad_hidden, grad_cell, grad_weight, grad_bias};
}
