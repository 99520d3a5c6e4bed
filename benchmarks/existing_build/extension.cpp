// An extension as people write them for torch.utils.cpp_extension: an operator, its gradient, and checks.
#include <torch/extension.h>

#include <vector>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_contiguous() && x.device().is_cpu(), #x " must be contiguous and on the CPU")

torch::Tensor swish_forward(torch::Tensor x, double beta) {
  CHECK_INPUT(x);
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "swish_forward", [&] {
    const auto* in = x.data_ptr<scalar_t>();
    auto* out = y.data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      out[i] = in[i] / (1 + std::exp(-static_cast<scalar_t>(beta) * in[i]));
    }
  });
  return y;
}

std::vector<torch::Tensor> swish_backward(torch::Tensor grad, torch::Tensor x, double beta) {
  CHECK_INPUT(x);
  auto s = torch::sigmoid(beta * x);
  return {grad * (s + beta * x * s * (1 - s)), (grad * x * x * s * (1 - s)).sum()};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &swish_forward, "swish");
  m.def("backward", &swish_backward, "its gradient");
}
