// How tensors lie in memory: what a generated binding allocates outputs as, and how it shows tensors to kernels.
//
// runtime/outputs.py makes the same choices in Python, for fake tensors and for results of a body.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "arguments.h"
#include "held.h"
#include "sizes.h"
#include "view.h"

namespace opsmith {
namespace binding {

// An output, uninitialised. It refers to `sizes` and `strides`, which the caller keeps.
inline Held allocate(const DeviceId& device, int32_t dtype, const Sizes& sizes, const Sizes& strides) {
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(sizes.count, sizes.item, strides.item, dtype, device.type, device.index, &handle) != 0) {
    torch_failed("an output cannot be allocated");
  }
  return Held(handle, sizes.count, sizes.item, strides.item, dtype, device);
}

[[gnu::noinline]] inline void Held::make_contiguous() {
  if (handle_ == nullptr || is_contiguous()) return;
  replace(contiguous_strides(sizes, rank).item);
}

[[gnu::noinline]] inline void Held::replace(const int64_t* by_strides) {
  AtenTensorHandle copy = nullptr;
  if (aoti_torch_empty_strided(rank, sizes, by_strides, dtype, device.type, device.index, &copy) != 0) {
    torch_failed("a contiguous copy cannot be allocated");
  }
  const AtenTensorHandle from = handle_;
  handle_ = copy;
  const AOTITorchError error = aoti_torch_copy_(copy, from, 0);
  // A copy of a copy goes back to the argument itself.
  if (original_ == nullptr) {
    original_ = from;
  } else {
    aoti_torch_delete_tensor_object(from);
  }
  if (error != 0) torch_failed("a tensor cannot be copied");
  read();
}

// Replaces a tensor by a contiguous copy where its last dimension is not: for kernels that take all other strides. The
// dimensions from `begin` on are the last one of such a kernel's view.
inline void make_rows_contiguous(Held& tensor, int64_t begin = -1) {
  if (!tensor) return;
  for (int64_t dim = tensor.rank - 1; dim >= (begin < 0 ? tensor.rank - 1 : begin); --dim) {
    if (dim < 0 || tensor.sizes[dim] == 1) continue;
    if (tensor.strides[dim] != 1) tensor.make_contiguous();
    return;
  }
}

// Replaces a tensor by a contiguous copy where its data does not begin at a multiple of 16 bytes, as a view's may not:
// for kernels that rely on it. With `keeps_strides` the copy has the tensor's, which then lies in memory without gaps.
inline void make_aligned(Held& tensor, bool keeps_strides = false) {
  constexpr uintptr_t alignment = 16;
  if (!tensor || reinterpret_cast<uintptr_t>(tensor.data<const void>()) % alignment == 0) return;
  tensor.replace(keeps_strides ? tensor.strides : contiguous_strides(tensor.sizes, tensor.rank).item);
}

[[gnu::noinline]] inline void Held::copy_back() {
  if (original_ != nullptr && aoti_torch_copy_(original_, handle_, 0) != 0) {
    torch_failed("a result cannot be copied");
  }
}

// The null view stands for a tensor that was not given.
template <class T, int N>
View<T, N> view(const Held& tensor) {
  View<T, N> result{};
  if (!tensor) return result;
  result.data = tensor.data<T>();
  for (int dim = 0; dim < N; ++dim) {
    result.size[dim] = tensor.sizes[dim];
    result.stride[dim] = tensor.strides[dim];
  }
  return result;
}

// The views of a list's tensors.
template <class T, int N>
class Views {
 public:
  explicit Views(const HeldList& tensors) {
    views_.resize(static_cast<size_t>(tensors.count()));
    int64_t index = 0;
    for (const Held& tensor : tensors) views_[index++] = view<T, N>(tensor);
  }
  ViewList<T, N> list() const { return {views_.begin(), views_.count()}; }

 private:
  Items<View<T, N>> views_;
};

// Elementwise operators ----------------------------------------------------------------------------------------------

// Whether the elements fill one block of memory, each address once, in whatever order of dimensions.
[[gnu::noinline]] inline bool is_dense(const Held& tensor) {
  // The dimensions by stride, those of one size first: an insertion sort, as there are few.
  int64_t order[Sizes::capacity];
  int64_t count = 0;
  if (tensor.rank > Sizes::capacity) return false;
  for (int64_t dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.sizes[dim] == 1) continue;
    int64_t position = count++;
    for (; position > 0 && tensor.strides[order[position - 1]] > tensor.strides[dim]; --position)
      order[position] = order[position - 1];
    order[position] = dim;
  }
  int64_t next = 1;
  for (int64_t index = 0; index < count; ++index) {
    if (tensor.strides[order[index]] != next) return false;
    next *= tensor.sizes[order[index]];
  }
  return true;
}

[[gnu::noinline]] inline bool have_equal_strides(const Held& a, const Held& b) {
  for (int64_t dim = 0; dim < a.rank; ++dim) {
    if (a.sizes[dim] != 1 && a.strides[dim] != b.strides[dim]) return false;
  }
  return true;
}

enum class Layout { row_major, dense, mixed };

// How the inputs of an elementwise operator, which have equal sizes, lie in memory. `dense`: all alike, in an order of
// dimensions other than row-major (a transposed or channels_last tensor); the outputs then get the same strides. The
// first input is there; an optional one may not be.
inline Layout common_layout(std::initializer_list<const Held*> inputs) {
  const Held& first = **inputs.begin();
  bool all_contiguous = true;
  for (const Held* input : inputs) all_contiguous = all_contiguous && (!*input || input->is_contiguous());
  if (all_contiguous) return Layout::row_major;
  for (const Held* input : inputs) {
    if (!*input) continue;
    if (input->is_empty() || !is_dense(*input) || !have_equal_strides(first, *input)) return Layout::mixed;
  }
  return Layout::dense;
}

// A tensor that fills one block of memory, as one dimension.
template <class T>
View<T, 1> flat_view(const Held& tensor) {
  View<T, 1> result{};
  if (!tensor) return result;
  result.data = tensor.data<T>();
  result.size[0] = 1;
  for (int64_t dim = 0; dim < tensor.rank; ++dim) result.size[0] *= tensor.sizes[dim];
  result.stride[0] = 1;
  return result;
}

// Variadic groups ----------------------------------------------------------------------------------------------------

// Replaces a tensor by a contiguous copy where the dimensions of its variadic group cannot be seen as one.
[[gnu::noinline]] inline void make_mergeable(Held& tensor, int64_t begin, int64_t behind) {
  if (!tensor) return;
  const int64_t end = tensor.rank - behind;
  int64_t expected = -1;
  for (int64_t dim = end - 1; dim >= begin; --dim) {
    if (tensor.sizes[dim] == 1) continue;
    if (expected >= 0 && tensor.strides[dim] != expected) return tensor.make_contiguous();
    expected = tensor.strides[dim] * tensor.sizes[dim];
  }
}

// The view of a tensor whose dimensions [begin, rank - behind) are seen as one.
template <class T, int N>
View<T, N> group_view(const Held& tensor, int64_t begin, int64_t behind) {
  View<T, N> result{};
  if (!tensor) return result;
  result.data = tensor.data<T>();
  const int64_t end = tensor.rank - behind;
  for (int64_t dim = 0; dim < begin; ++dim) {
    result.size[dim] = tensor.sizes[dim];
    result.stride[dim] = tensor.strides[dim];
  }
  result.size[begin] = 1;
  result.stride[begin] = 1;
  for (int64_t dim = end - 1; dim >= begin; --dim) {
    if (tensor.sizes[dim] == 1) continue;
    if (result.size[begin] == 1) result.stride[begin] = tensor.strides[dim];
    result.size[begin] *= tensor.sizes[dim];
  }
  for (int64_t dim = 0; dim < behind; ++dim) {
    result.size[begin + 1 + dim] = tensor.sizes[end + dim];
    result.stride[begin + 1 + dim] = tensor.strides[end + dim];
  }
  return result;
}

}  // namespace binding
}  // namespace opsmith
