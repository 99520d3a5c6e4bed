// An LLTM step on a GPU: one kernel of its own where the products are small, else PyTorch's products between kernels.
#include "cell_gpu.h"
#include "composed.h"

#include <opsmith/stream.h>
#include <algorithm>

using namespace opsmith;
using namespace opsmith::ops::lltm;

namespace opsmith::ops::lltm {
namespace {

// Up to how many multiply-adds in one product kernels of our own are faster than PyTorch's products and what stands
// beside them, on an H200. For float and double PyTorch's take long to start, for the 16-bit types they have tensor
// cores.
struct Limit {
  int64_t forward;
  int64_t backward;
};

constexpr Limit limit_for(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return {int64_t{1} << 27, int64_t{1} << 24};
    case ScalarType::Double:
      return {int64_t{1} << 25, int64_t{1} << 22};
    default:
      return {int64_t{1} << 26, int64_t{1} << 24};
  }
}

int64_t multiply_adds(const Tensor& cell, const Tensor& weight) { return cell.size(0) * weight.numel(); }

// The forward reads [hidden, input] anew for each pair of units, which large batches notice; and a warp, or a block of
// the backward, goes along whole rows of the weight, so that long ones would leave the rest of the GPU without work.
bool is_forward_fused(const Tensor& cell, const Tensor& weight) {
  return cell.size(0) <= 1024 && weight.size(1) <= 4096 &&
         multiply_adds(cell, weight) <= limit_for(cell.scalar_type()).forward;
}

bool is_backward_fused(const Tensor& cell, const Tensor& weight) {
  return std::max(cell.size(0), cell.size(1)) <= ops::lltm::most_fused && weight.size(1) <= 4 * ops::lltm::most_fused &&
         multiply_adds(cell, weight) <= limit_for(cell.scalar_type()).backward;
}

}  // namespace
}  // namespace opsmith::ops::lltm

std::tuple<Tensor, Tensor, Tensor> lltm_cell(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                             const Tensor& weight, const Tensor& bias) {
  namespace composed = ops::lltm::composed;
  const bool fused = is_forward_fused(cell, weight);
  const Tensor new_hidden = contiguous_like(cell), new_cell = contiguous_like(cell);
  const Tensor gates = fused ? empty_like(cell, {cell.size(0), 3 * cell.size(1)})
                             : aten::mm(composed::join(hidden, input), aten::transposed(weight));
  with_floating_type(cell.scalar_type(), [&](auto element) {
    using T = decltype(element);
    const ops::lltm::Forward<T> step{
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
    fused ? ops::lltm::fused_forward(step, stream) : ops::lltm::finish_forward(step, stream);
  });
  return {new_hidden, new_cell, gates};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lltm_cell_backward(const Tensor& grad_new_hidden,
                                                                      const Tensor& grad_new_cell, const Tensor& input,
                                                                      const Tensor& hidden, const Tensor& cell,
                                                                      const Tensor& weight, const Tensor& bias,
                                                                      const Tensor& gates, const Tensor& new_cell) {
  const Tensor grad_input = contiguous_like(input), grad_hidden = contiguous_like(hidden),
               grad_cell = contiguous_like(cell), grad_bias = contiguous_like(bias);
  Tensor grad_weight;
  with_floating_type(cell.scalar_type(), [&](auto element) {
    using T = decltype(element);
    using C = compute_t<T>;
    void* const stream = current_stream(cell.get_device_index());
    ops::lltm::Backward<T> step{
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
    if (is_backward_fused(cell, weight)) {
      grad_weight = contiguous_like(weight);
      step.grad_weight = view<T, 2>(grad_weight);
      ops::lltm::fused_backward(step, stream);
      return;
    }
    const int64_t batch = cell.size(0), parts = ops::lltm::bias_parts(batch, cell.size(1));
    const ScalarType wide = sizeof(C) == 8 ? ScalarType::Double : ScalarType::Float;
    const Tensor partial = torch::stable::new_empty(bias, {parts > 1 ? parts : 0, bias.size(0)}, wide);
    const Tensor grad_gates = contiguous_like(gates), joined = empty_like(cell, {batch, weight.size(1)});
    ops::lltm::start_backward(step, view<T, 2>(grad_gates), view<T, 2>(joined), stream);
    const Tensor grad_joined = aten::mm(grad_gates, weight);
    ops::lltm::finish_backward(step, view<const T, 2>(grad_gates), view<const T, 2>(grad_joined), view<C, 2>(partial),
                               stream);
    grad_weight = aten::mm(aten::transposed(grad_gates), joined);
  });
  return {grad_input, grad_hidden, grad_cell, grad_weight, grad_bias};
}
