// Between PyTorch's stable tensors and opsmith's views: what native kernels and the generated bindings share.
//
// Everything here is written against torch's stable C++ ABI, so a library built once loads in every torch since 2.10.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "error.h"
#include "stream.h"
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

}  // namespace opsmith
