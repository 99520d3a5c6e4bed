// The least that a kernel can do: allocate its results.
#include <opsmith/native.h>

using namespace opsmith;

std::tuple<Tensor, Tensor> nothing(const Tensor& input, const Tensor& weight1, const Tensor& /*bias1*/,
                                   const Tensor& weight2, const Tensor& /*bias2*/) {
  return {empty_like(input, {input.size(0), weight2.size(0)}), empty_like(input, {input.size(0), weight1.size(0)})};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> nothing_backward(const Tensor& /*grad_output*/, const Tensor& input,
                                                                    const Tensor& weight1, const Tensor& bias1,
                                                                    const Tensor& weight2, const Tensor& bias2,
                                                                    const Tensor& /*hidden*/) {
  return {contiguous_like(input), contiguous_like(weight1), contiguous_like(bias1), contiguous_like(weight2),
          contiguous_like(bias2)};
}
