// mlp on a GPU: by one kernel where it is small, else by PyTorch's matrix products and what of ours goes between them.
#include "mlp_gpu.h"

#include <opsmith/native.h>

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h>

using namespace opsmith;
using namespace opsmith::ops::mlp;

namespace opsmith::ops::mlp {
namespace {

// Whether the small kernels are faster than PyTorch's products, as measured over a grid of sizes on an H200. An
// output counts four times: the gradient of a hidden unit is computed from all outputs wherever the backward reads it.
bool is_small(const Tensor& input, const Tensor& weight1, const Tensor& weight2) {
  constexpr int64_t most_work = int64_t{6} << 20;
  constexpr int64_t most_columns = 4096;  // a block has shared memory for so many hidden units
  const int64_t batch = input.size(0), features = input.size(1), units = weight1.size(0), outputs = weight2.size(0);
  return features <= most_columns && units <= most_columns && outputs <= most_columns &&
         batch <= most_work / ((features + 4 * outputs + 1) * (units + 1));
}

void* stream_of(const Tensor& tensor) { return current_stream(tensor.get_device_index()); }

// relu(input weight^T + bias). cuBLASLt adds the bias and takes the ReLU before it stores, through an operator whose
// Scalars call() cannot say, but torch's C shim can.
Tensor linear_relu(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (input.numel() == 0) return call<1>("aten::relu", "", aten::linear(input, weight, bias))[0];
  static const auto addmm_activation = reinterpret_cast<decltype(&aoti_torch_cuda__addmm_activation)>(
      find_gpu_function("aoti_torch_cuda__addmm_activation"));
  constexpr double beta = 1, alpha = 1;
  constexpr int32_t use_gelu = 0;
  AtenTensorHandle result = nullptr;
  if (addmm_activation(bias.get(), input.get(), aten::transposed(weight).get(), beta, alpha, use_gelu, &result) !=
      AOTI_TORCH_SUCCESS) {
    torch_failed("mlp(): the call of aten::_addmm_activation failed");
  }
  return Tensor(result);
}

opsmith::ops::mlp::Sizes sizes_of(const Tensor& input, const Tensor& weight1, const Tensor& weight2) {
  const auto size = [](const Tensor& tensor, int64_t dim) { return static_cast<int>(tensor.size(dim)); };
  return {size(input, 0), size(input, 1), size(weight1, 0), size(weight2, 0)};
}

template <class T>
const T* read(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <class T>
T* written(const Tensor& tensor) {
  return tensor.numel() > 0 ? static_cast<T*>(tensor.mutable_data_ptr()) : nullptr;
}

}  // namespace
}  // namespace opsmith::ops::mlp

std::tuple<Tensor, Tensor> mlp(const Tensor& input, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
                               const Tensor& bias2) {
  if (!is_small(input, weight1, weight2)) {
    const Tensor hidden = linear_relu(input, weight1, bias1);
    return {aten::linear(hidden, weight2, bias2), hidden};
  }
  using torch::stable::contiguous;
  const Tensor x = contiguous(input), w1 = contiguous(weight1), b1 = contiguous(bias1), w2 = contiguous(weight2);
  const Tensor b2 = contiguous(bias2);
  const Tensor hidden = empty_like(input, {input.size(0), weight1.size(0)});
  const Tensor output = empty_like(input, {input.size(0), weight2.size(0)});
  with_floating_type(input.scalar_type(), [&](auto element) {
    using T = decltype(element);
    opsmith::ops::mlp::forward_small<T>(sizes_of(input, weight1, weight2),
                                        {read<T>(x), read<T>(w1), read<T>(b1), read<T>(w2), read<T>(b2)},
                                        written<T>(hidden), written<T>(output), stream_of(input));
  });
  return {output, hidden};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> mlp_backward(const Tensor& grad_output, const Tensor& input,
                                                                const Tensor& weight1, const Tensor& bias1,
                                                                const Tensor& weight2, const Tensor& bias2,
                                                                const Tensor& hidden, bool needs_grad_input,
                                                                bool needs_grad_weight1, bool needs_grad_weight2) {
  const Tensor grad_bias1 = gradient_like(bias1), grad_bias2 = gradient_like(bias2);
  if (is_small(input, weight1, weight2)) {
    using torch::stable::contiguous;
    const Tensor x = contiguous(input), w1 = contiguous(weight1), w2 = contiguous(weight2), h = contiguous(hidden);
    const Tensor grad_input = gradient_like(input, needs_grad_input);
    const Tensor grad_weight1 = gradient_like(weight1, needs_grad_weight1);
    const Tensor grad_weight2 = gradient_like(weight2, needs_grad_weight2);
    with_floating_type(input.scalar_type(), [&](auto element) {
      using T = decltype(element);
      opsmith::ops::mlp::backward_small<T>(sizes_of(input, weight1, weight2), view<const T, 2>(grad_output),
                                           {read<T>(x), read<T>(w1), nullptr, read<T>(w2), nullptr}, read<T>(h),
                                           {written<T>(grad_input), written<T>(grad_weight1), written<T>(grad_bias1),
                                            written<T>(grad_weight2), written<T>(grad_bias2)},
                                           stream_of(input));
    });
    return {grad_input, grad_weight1, grad_bias1, grad_weight2, grad_bias2};
  }
  const Tensor grad_hidden = aten::mm(grad_output, weight2);
  const int64_t slabs = (input.size(0) + opsmith::ops::mlp::slab_rows - 1) / opsmith::ops::mlp::slab_rows;
  const ScalarType type = input.scalar_type();
  const ScalarType wide = type == ScalarType::Double ? type : ScalarType::Float;
  const Tensor partial = torch::stable::new_empty(input, {slabs, weight1.size(0) + weight2.size(0)}, wide);
  with_floating_type(type, [&](auto element) {
    using T = decltype(element);
    using C = compute_t<T>;
    opsmith::ops::mlp::mask_and_sum<T>(view<T, 2>(grad_hidden), view<const T, 2>(hidden), view<const T, 2>(grad_output),
                                       view<C, 2>(partial), stream_of(input));
    opsmith::ops::mlp::sum_slabs<T>(view<const C, 2>(partial), view<T, 1>(grad_bias1), view<T, 1>(grad_bias2),
                                    stream_of(input));
  });
  return {
      needs_grad_input ? aten::mm(grad_hidden, weight1) : gradient_like(input, false),
      needs_grad_weight1 ? aten::mm(aten::transposed(grad_hidden), input) : gradient_like(weight1, false), grad_bias1,
      needs_grad_weight2 ? aten::mm(aten::transposed(grad_output), hidden) : gradient_like(weight2, false), grad_bias2};
}
