// The least that a kernel can do: allocate its results.
#include <opsmith/native.h>

using namespace opsmith;

namespace {

Tensor like(const Tensor& tensor) { return empty_like(tensor, {tensor.sizes().begin(), tensor.sizes().end()}); }

}  // namespace

std::tuple<Tensor, Tensor> nothing(const Tensor& input, const Tensor& weight1, const Tensor& /*bias1*/,
                                   const Tensor& weight2, const Tensor& /*bias2*/) {
  return {empty_like(input, {input.size(0), weight2.size(0)}), empty_like(input, {input.size(0), weight1.size(0)})};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> nothing_backward(const Tensor& /*grad_output*/, const Tensor& input,
                                                                    const Tensor& weight1, const Tensor& bias1,
                                                                    const Tensor& weight2, const Tensor& bias2,
                                                                    const Tensor& /*hidden*/) {
  return {like(input), like(weight1), like(bias1), like(weight2), like(bias2)};
}
