// An LLTM step on the CPU: by products of its own where that is faster, else by PyTorch's.
#include "cell_cpu.h"
#include "composed.h"

using namespace opsmith;
using namespace opsmith::ops::lltm;

namespace opsmith::ops::lltm {
namespace {

// Whether products of our own are faster than PyTorch's; `opsmith bench` measures it.
//
// For float, double and float16 they are in the forward: by dot products for a few rows, where reading the weight is
// all that takes time and PyTorch leaves that to one thread; by panels from a batch on that fills vectors. A backward's
// vectors go along the weight's rows. For bfloat16 PyTorch has the processor's own instructions, and only its calls
// cost more than ours. The backward of one row, which reads and writes as much as it computes, has a way of its own.
struct Choice {
  int64_t few_rows;        // up to this batch the forward takes dot products
  int64_t forward_batch;   // from this batch on panels
  int64_t backward_batch;  // likewise
  int64_t most_weights;
  int64_t most_multiply_adds;
};

constexpr int64_t unlimited = INT64_MAX;

constexpr Choice choice_for(ScalarType type) {
  switch (type) {
    case ScalarType::BFloat16:
      return {2, unlimited, 1, int64_t{1} << 17, int64_t{1} << 21};
    case ScalarType::Half:
      return {7, 8, 1, unlimited, unlimited};
    default:
      return {7, 8, 2, unlimited, unlimited};
  }
}

bool is_fused(int64_t Choice::* least_batch, const Tensor& cell, const Tensor& weight) {
  const Choice choice = choice_for(cell.scalar_type());
  const int64_t batch = cell.size(0), weights = weight.numel();
  return weights > 0 && batch >= choice.*least_batch && weights <= choice.most_weights &&
         batch <= choice.most_multiply_adds / weights;
}

}  // namespace
}  // namespace opsmith::ops::lltm

std::tuple<Tensor, Tensor, Tensor> lltm_cell_cpu(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                                 const Tensor& weight, const Tensor& bias) {
  const int64_t batch = cell.size(0), state = cell.size(1);
  const bool few_rows = batch > 0 && batch <= choice_for(cell.scalar_type()).few_rows && weight.numel() > 0;
  if (!few_rows && !is_fused(&Choice::forward_batch, cell, weight)) {
    return composed::forward(input, hidden, cell, weight, bias);
  }
  const Tensor new_hidden = empty_like(cell, {batch, state}), new_cell = empty_like(cell, {batch, state});
  const Tensor gates = empty_like(cell, {batch, 3 * state});
  with_floating_type(cell.scalar_type(), [&](auto element) {
    using T = decltype(element);
    fused_forward<T>(few_rows, view<const T, 2>(input), view<const T, 2>(hidden), view<const T, 2>(cell),
                     view<const T, 2>(weight), view<const T, 1>(bias), view<T, 2>(new_hidden), view<T, 2>(new_cell),
                     view<T, 2>(gates));
  });
  return {new_hidden, new_cell, gates};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lltm_cell_backward_cpu(
    const Tensor& grad_new_hidden, const Tensor& grad_new_cell, const Tensor& input, const Tensor& hidden,
    const Tensor& cell, const Tensor& weight, const Tensor& bias, const Tensor& gates, const Tensor& new_cell) {
  const bool is_one = cell.size(0) == 1 && weight.numel() > 0 && weight.stride(1) == 1 &&
                      (cell.scalar_type() == ScalarType::Float || cell.scalar_type() == ScalarType::Double);
  if (!is_one && !is_fused(&Choice::backward_batch, cell, weight)) {
    return composed::backward(grad_new_hidden, grad_new_cell, input, hidden, weight, gates, new_cell);
  }
  const Tensor grad_input = contiguous_like(input), grad_hidden = contiguous_like(hidden),
               grad_cell = contiguous_like(cell);
  const Tensor grad_weight = contiguous_like(weight), grad_bias = contiguous_like(bias);
  with_floating_type(cell.scalar_type(), [&](auto element) {
    using T = decltype(element);
    const auto run = [&](auto backward) {
      backward(view<const T, 2>(grad_new_hidden), view<const T, 2>(grad_new_cell), view<const T, 2>(input),
               view<const T, 2>(hidden), view<const T, 2>(weight), view<const T, 2>(gates), view<const T, 2>(new_cell),
               CellGradients<T>{view<T, 2>(grad_input), view<T, 2>(grad_hidden), view<T, 2>(grad_cell),
                                view<T, 2>(grad_weight), view<T, 1>(grad_bias)});
    };
    if constexpr (std::is_same_v<T, compute_t<T>>) {
      if (is_one) return run(backward_of_one<T>);
    }
    run(fused_backward<T>);
  });
  return {grad_input, grad_hidden, grad_cell, grad_weight, grad_bias};
}
