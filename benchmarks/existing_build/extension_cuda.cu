// The same as people write it for CUDA: one file with a kernel, its launch and the binding.
#include <torch/extension.h>

#include <ATen/cuda/CUDAContext.h>

template <typename T>
__global__ void swish_kernel(const T* __restrict__ in, T* __restrict__ out, T beta, int64_t size) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < size) out[i] = in[i] / (1 + exp(-beta * in[i]));
}

torch::Tensor swish_forward(torch::Tensor x, double beta) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be contiguous and on the GPU");
  auto y = torch::empty_like(x);
  const int threads = 256;
  const auto blocks = static_cast<unsigned>((x.numel() + threads - 1) / threads);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "swish_forward", [&] {
    swish_kernel<scalar_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), static_cast<scalar_t>(beta), x.numel());
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &swish_forward, "swish"); }
