// Between PyTorch's stable tensors and opsmith's views: what native kernels and the generated bindings share.
//
// Everything here is written against torch's stable C++ ABI, so a library built once loads in every torch since 2.10.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "error.h"
#include "types.h"
#include "view.h"

namespace opsmith {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// A view of a tensor whose element type and rank are known to be T and N.
template <class T, int N>
View<T, N> view(const Tensor& tensor) {
  View<T, N> result{};
  result.data = static_cast<T*>(const_cast<void*>(tensor.const_data_ptr()));
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  for (int dim = 0; dim < N; ++dim) {
    result.size[dim] = sizes[dim];
    result.stride[dim] = strides[dim];
  }
  return result;
}

// The null view stands for a tensor that was not given.
template <class T, int N>
View<T, N> view(const std::optional<Tensor>& tensor) {
  return tensor ? view<T, N>(*tensor) : View<T, N>{};
}

namespace detail {

// A function of the torch library that serves the GPU, looked up where that library is loaded. Linking to it instead
// would make a library with CPU and GPU kernels unloadable where torch is a CPU build.
inline void* find_gpu_function(const char* name) {
  for (const char* library : {"libtorch_cuda.so", "libtorch_hip.so"}) {
    if (void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      void* found = dlsym(handle, name);
      dlclose(handle);  // NOLOAD counted one reference; torch keeps the library
      if (found != nullptr) return found;
    }
  }
  fail("this torch has no GPU library that offers ", name);
}

}  // namespace detail

// The stream that PyTorch currently uses on a GPU: a cudaStream_t or a hipStream_t.
inline void* current_stream(int32_t device_index) {
  using Function = AOTITorchError (*)(int32_t, void**);
  static const auto get = reinterpret_cast<Function>(detail::find_gpu_function("aoti_torch_get_current_cuda_stream"));
  void* stream = nullptr;
  if (get(device_index, &stream) != AOTI_TORCH_SUCCESS) fail("torch gives no current stream for GPU ", device_index);
  return stream;
}

}  // namespace opsmith
