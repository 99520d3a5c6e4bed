// mlp on the CPU: by products of its own where those are faster, else by PyTorch's.
#include "products.h"

#include <opsmith/native.h>

using namespace opsmith;
using namespace opsmith::ops::mlp;

namespace opsmith::ops::mlp {
namespace {

template <class T>
struct CpuLayers {
  View<const T, 2> input;    // [B F]
  View<const T, 2> weight1;  // [H F]
  View<const T, 1> bias1;
  View<const T, 2> weight2;  // [O H]
  View<const T, 1> bias2;
};

// A gradient that is not needed has no elements.
template <class T>
struct CpuGradients {
  View<T, 2> input;
  View<T, 2> weight1;
  View<T, 1> bias1;
  View<T, 2> weight2;
  View<T, 1> bias2;
};

template <class T>
void forward_fused(const CpuLayers<T>& layers, View<T, 2> hidden, View<T, 2> output) {
  using C = compute_t<T>;
  const int64_t units = hidden.size[1], outputs = output.size[1];
  const View<const T, 2> activation = hidden;
  Scratch<C> converted(std::max(converted_size(layers.input), converted_size(activation)));
  Scratch<C> bias(padded<C>(std::max(units, outputs)));
  load_block(layers.bias1.data, layers.bias1.stride[0], units, bias.data);
  multiply(factor_of(layers.input, converted.data), transposed(layers.weight1), hidden,
           [&](const Part<C>& part) { add_bias<true>(part, bias.data); });
  load_block(layers.bias2.data, layers.bias2.stride[0], outputs, bias.data);
  multiply(factor_of(activation, converted.data), transposed(layers.weight2), output,
           [&](const Part<C>& part) { add_bias<false>(part, bias.data); });
}

template <class T>
void backward_fused(View<const T, 2> grad_output, const CpuLayers<T>& layers, View<const T, 2> hidden,
                    const CpuGradients<T>& to) {
  using C = compute_t<T>;
  const int64_t batch = hidden.size[0], units = hidden.size[1];
  // A cache line more than whole vectors need, lest all rows start in one set of the cache.
  const int64_t stride = padded<C>(units) + 16;
  Scratch<C> converted(converted_size(grad_output)), buffer(batch * stride);
  const Factor<C> outer = factor_of(grad_output, converted.data);
  const View<C, 2> grad_linear{buffer.data, {batch, units}, {stride, 1}};
  multiply(outer, layers.weight2, grad_linear, [&](const Part<C>& part) { mask(part, hidden); });
  const Factor<C> inner{buffer.data, stride, 1};
  if (to.input.numel() > 0) multiply(inner, layers.weight1, to.input);
  if (to.weight1.numel() > 0) multiply(inner.transposed(), layers.input, to.weight1);
  if (to.weight2.numel() > 0) multiply(outer.transposed(), hidden, to.weight2);
  sum_columns(inner, batch, to.bias1);
  sum_columns(outer, batch, to.bias2);
}

// Whether products of our own are faster than PyTorch's; `opsmith bench` measures it. For bfloat16 PyTorch has the
// processor's own instructions, and only its calls cost more than ours.
bool is_fused(const Tensor& input, const Tensor& weight1, const Tensor& weight2) {
  constexpr int64_t most_bfloat16_multiply_adds = int64_t{1} << 21;
  if (input.scalar_type() != ScalarType::BFloat16) return true;
  return input.size(0) * (weight1.numel() + weight2.numel()) <= most_bfloat16_multiply_adds;
}

template <class T>
CpuLayers<T> layers_of(const Tensor& input, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
                       const Tensor& bias2) {
  return {view<const T, 2>(input), view<const T, 2>(weight1), view<const T, 1>(bias1), view<const T, 2>(weight2),
          view<const T, 1>(bias2)};
}

// grad_hidden = 0 where hidden <= 0, in place. Both are contiguous.
template <class T>
void mask_all(View<T, 2> grad_hidden, View<const T, 2> hidden) {
  using C = compute_t<T>;
  parallel_for(0, hidden.numel(), 32768, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += block_size) {
      const int64_t count = std::min(block_size, end - i);
      InputBlock<T> activation(hidden.data + i, 1, count), before(grad_hidden.data + i, 1, count);
      OutputBlock<T> after(grad_hidden.data + i, 1, count);
      with_best_isa(
          [](int64_t count, const C* activation, const C* before, C* after) {
            for (int64_t k = 0; k < count; ++k) after[k] = activation[k] <= C(0) ? C(0) : before[k];
          },
          count, activation.data, before.data, after.data);
      after.store();
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::mlp

std::tuple<Tensor, Tensor> mlp_cpu(const Tensor& input, const Tensor& weight1, const Tensor& bias1,
                                   const Tensor& weight2, const Tensor& bias2) {
  if (!is_fused(input, weight1, weight2)) {
    const Tensor hidden = call<1>("aten::relu_", "", aten::linear(input, weight1, bias1))[0];
    return {aten::linear(hidden, weight2, bias2), hidden};
  }
  const Tensor hidden = empty_like(input, {input.size(0), weight1.size(0)});
  const Tensor output = empty_like(input, {input.size(0), weight2.size(0)});
  with_floating_type(input.scalar_type(), [&](auto element) {
    using T = decltype(element);
    forward_fused<T>(layers_of<T>(input, weight1, bias1, weight2, bias2), view<T, 2>(hidden), view<T, 2>(output));
  });
  return {output, hidden};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> mlp_backward_cpu(const Tensor& grad_output, const Tensor& input,
                                                                    const Tensor& weight1, const Tensor& bias1,
                                                                    const Tensor& weight2, const Tensor& bias2,
                                                                    const Tensor& hidden, bool needs_grad_input,
                                                                    bool needs_grad_weight1, bool needs_grad_weight2) {
  if (!is_fused(input, weight1, weight2)) {
    const Tensor grad_hidden = aten::mm(grad_output, weight2);
    const Tensor activation = torch::stable::contiguous(hidden);
    with_floating_type(input.scalar_type(), [&](auto element) {
      using T = decltype(element);
      mask_all<T>(view<T, 2>(grad_hidden), view<const T, 2>(activation));
    });
    return {needs_grad_input ? aten::mm(grad_hidden, weight1) : gradient_like(input, false),
            needs_grad_weight1 ? aten::mm(aten::transposed(grad_hidden), input) : gradient_like(weight1, false),
            aten::sum_rows(grad_hidden),
            needs_grad_weight2 ? aten::mm(aten::transposed(grad_output), hidden) : gradient_like(weight2, false),
            aten::sum_rows(grad_output)};
  }
  const Tensor grad_input = gradient_like(input, needs_grad_input),
               grad_weight1 = gradient_like(weight1, needs_grad_weight1);
  const Tensor grad_weight2 = gradient_like(weight2, needs_grad_weight2);
  const Tensor grad_bias1 = gradient_like(bias1), grad_bias2 = gradient_like(bias2);
  with_floating_type(input.scalar_type(), [&](auto element) {
    using T = decltype(element);
    backward_fused<T>(view<const T, 2>(grad_output), layers_of<T>(input, weight1, bias1, weight2, bias2),
                      view<const T, 2>(hidden),
                      {view<T, 2>(grad_input), view<T, 2>(grad_weight1), view<T, 1>(grad_bias1),
                       view<T, 2>(grad_weight2), view<T, 1>(grad_bias2)});
  });
  return {grad_input, grad_weight1, grad_bias1, grad_weight2, grad_bias2};
}
