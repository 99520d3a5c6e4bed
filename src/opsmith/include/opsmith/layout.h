// How tensors lie in memory: what a generated binding allocates outputs as, and how it shows tensors to kernels.
//
// runtime/outputs.py makes the same choices in Python, for fake tensors and for results of a body.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "checks.h"

namespace opsmith {
namespace binding {

inline Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = next;
    next *= std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

// Strides for `order`, innermost dimension first.
inline Sizes strides_in_order(const Sizes& sizes, std::initializer_list<int> order) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (int dim : order) {
    strides[dim] = next;
    next *= sizes[dim];  // unlike row-major strides, those of torch's channels_last become 0 behind an empty dimension
  }
  return strides;
}

inline bool has_strides_in_order(const Tensor& tensor, std::initializer_list<int> order) {
  int64_t next = 1;
  for (int dim : order) {
    if (tensor.size(dim) == 1) continue;
    if (tensor.stride(dim) != next) return false;
    next *= tensor.size(dim);
  }
  return true;
}

// The strides of an output that keeps the memory format of an input: channels_last where the input is so, else
// row-major.
inline Sizes strides_like(const Tensor& input, const Sizes& sizes) {
  if (!input.is_contiguous()) {
    if (sizes.size() == 4 && has_strides_in_order(input, {1, 3, 2, 0})) return strides_in_order(sizes, {1, 3, 2, 0});
    if (sizes.size() == 5 && has_strides_in_order(input, {1, 4, 3, 2, 0})) {
      return strides_in_order(sizes, {1, 4, 3, 2, 0});
    }
  }
  return contiguous_strides(sizes);
}

inline Tensor allocate(const Place& place, ScalarType type, const Sizes& sizes, const Sizes& strides) {
  AtenTensorHandle handle = nullptr;
  const auto code = static_cast<int32_t>(torch::stable::detail::from(type));
  if (aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), code, place.type,
                               place.index, &handle) != AOTI_TORCH_SUCCESS) {
    fail("an output cannot be allocated; torch's message stands above");
  }
  return Tensor(handle);
}

inline Tensor allocate(const Place& place, ScalarType type, const Sizes& sizes) {
  return allocate(place, type, sizes, contiguous_strides(sizes));
}

inline bool is_empty(const Tensor& tensor) { return tensor.numel() == 0; }

inline Tensor as_contiguous(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}
inline std::optional<Tensor> as_contiguous(const std::optional<Tensor>& tensor) {
  return tensor ? std::optional<Tensor>(as_contiguous(*tensor)) : std::nullopt;
}
inline std::vector<Tensor> as_contiguous(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) tensor = as_contiguous(tensor);
  return tensors;
}

// Gives an argument that was copied to be made contiguous what the kernel wrote.
inline void copy_back(Tensor& argument, const Tensor& copy) {
  if (argument.get() != copy.get()) torch::stable::copy_(argument, copy);
}
inline void copy_back(std::optional<Tensor>& argument, const std::optional<Tensor>& copy) {
  if (argument) copy_back(*argument, *copy);
}

// Elementwise operators ----------------------------------------------------------------------------------------------

// Whether the elements fill one block of memory, each place once, in whatever order of dimensions.
inline bool is_dense(const Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, size)
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) != 1) dims.emplace_back(tensor.stride(dim), tensor.size(dim));
  }
  std::sort(dims.begin(), dims.end());
  int64_t next = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

inline bool have_equal_strides(const Tensor& a, const Tensor& b) {
  for (int64_t dim = 0; dim < a.dim(); ++dim) {
    if (a.size(dim) != 1 && a.stride(dim) != b.stride(dim)) return false;
  }
  return true;
}

enum class Layout { row_major, dense, mixed };

// How the inputs of an elementwise operator, which have equal sizes, lie in memory. `dense`: all alike, in an order of
// dimensions other than row-major (a transposed or channels_last tensor); the outputs then get the same strides.
inline Layout common_layout(std::initializer_list<const Tensor*> inputs) {
  const Tensor& first = **inputs.begin();
  bool all_contiguous = true;
  for (const Tensor* input : inputs) all_contiguous = all_contiguous && input->is_contiguous();
  if (all_contiguous) return Layout::row_major;
  for (const Tensor* input : inputs) {
    if (is_empty(*input) || !is_dense(*input) || !have_equal_strides(first, *input)) return Layout::mixed;
  }
  return Layout::dense;
}

// A tensor that fills one block of memory, as one dimension.
template <class T>
View<T, 1> flat_view(const Tensor& tensor) {
  View<T, 1> result{};
  result.data = static_cast<T*>(const_cast<void*>(tensor.const_data_ptr()));
  result.size[0] = tensor.numel();
  result.stride[0] = 1;
  return result;
}
template <class T>
View<T, 1> flat_view(const std::optional<Tensor>& tensor) {
  return tensor ? flat_view<T>(*tensor) : View<T, 1>{};
}

// Variadic groups ----------------------------------------------------------------------------------------------------

// The tensor itself where the dimensions of its variadic group can be seen as one, else a contiguous copy.
inline Tensor mergeable(const Tensor& tensor, int64_t begin, int64_t behind) {
  const int64_t end = tensor.dim() - behind;
  int64_t expected = -1;
  for (int64_t dim = end - 1; dim >= begin; --dim) {
    if (tensor.size(dim) == 1) continue;
    if (expected >= 0 && tensor.stride(dim) != expected) return torch::stable::contiguous(tensor);
    expected = tensor.stride(dim) * tensor.size(dim);
  }
  return tensor;
}
inline std::optional<Tensor> mergeable(const std::optional<Tensor>& tensor, int64_t begin, int64_t behind) {
  return tensor ? std::optional<Tensor>(mergeable(*tensor, begin, behind)) : std::nullopt;
}

// The view of a tensor whose dimensions [begin, dim - behind) are seen as one.
template <class T, int N>
View<T, N> group_view(const Tensor& tensor, int64_t begin, int64_t behind) {
  View<T, N> result{};
  result.data = static_cast<T*>(const_cast<void*>(tensor.const_data_ptr()));
  const int64_t end = tensor.dim() - behind;
  for (int64_t dim = 0; dim < begin; ++dim) {
    result.size[dim] = tensor.size(dim);
    result.stride[dim] = tensor.stride(dim);
  }
  result.size[begin] = 1;
  result.stride[begin] = 1;
  for (int64_t dim = end - 1; dim >= begin; --dim) {
    if (tensor.size(dim) == 1) continue;
    if (result.size[begin] == 1) result.stride[begin] = tensor.stride(dim);
    result.size[begin] *= tensor.size(dim);
  }
  for (int64_t dim = 0; dim < behind; ++dim) {
    result.size[begin + 1 + dim] = tensor.size(end + dim);
    result.stride[begin + 1 + dim] = tensor.stride(end + dim);
  }
  return result;
}
template <class T, int N>
View<T, N> group_view(const std::optional<Tensor>& tensor, int64_t begin, int64_t behind) {
  return tensor ? group_view<T, N>(*tensor, begin, behind) : View<T, N>{};
}

}  // namespace binding
}  // namespace opsmith
