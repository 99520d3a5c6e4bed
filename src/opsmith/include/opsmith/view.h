// What a kernel takes for a tensor, a list of numbers and a list of tensors. Nothing here owns memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "error.h"
#include "host_device.h"
#include "optional.h"

namespace opsmith {

// An N-dimensional tensor: its first element, and a size and a stride (in elements) for each dimension. Trivially
// copyable, so it is passed by value, to GPU kernels too. A view without data stands for an absent optional tensor; an
// empty tensor's view may have none either, so ask for the size before that.
template <class T, int N>
struct View {
  static constexpr int stored = N > 0 ? N : 1;  // C++ has no arrays of length 0

  T* data;
  int64_t size[stored];
  int64_t stride[stored];

  // The element at N indices. Not checked.
  template <class... Index>
  OPSMITH_HOST_DEVICE T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "a view takes one index for each dimension");
    int64_t offset = 0;
    int dim = 0;
    ((offset += static_cast<int64_t>(index) * stride[dim++]), ...);
    return data[offset];
  }

  OPSMITH_HOST_DEVICE explicit operator bool() const { return data != nullptr; }

  // The number of elements; 1 for N = 0.
  OPSMITH_HOST_DEVICE int64_t numel() const {
    int64_t count = 1;
    for (int dim = 0; dim < N; ++dim) count *= size[dim];
    return count;
  }

  // Whether the elements lie one after another in row-major order. As in PyTorch the stride of a dimension of size 1
  // does not matter, and an empty tensor is contiguous.
  OPSMITH_HOST_DEVICE bool is_contiguous() const {
    if (numel() == 0) return true;
    int64_t expected = 1;
    for (int dim = N - 1; dim >= 0; --dim) {
      if (size[dim] == 1) continue;
      if (stride[dim] != expected) return false;
      expected *= size[dim];
    }
    return true;
  }

  // View<T, N> to View<const T, N>, as T* to const T*.
  template <class U, class = std::enable_if_t<std::is_same_v<U, const T> && !std::is_const_v<T>>>
  OPSMITH_HOST_DEVICE operator View<U, N>() const {
    View<U, N> view{};
    view.data = data;
    for (int dim = 0; dim < N; ++dim) {
      view.size[dim] = size[dim];
      view.stride[dim] = stride[dim];
    }
    return view;
  }
};

// A list of numbers in host memory: what an operator's int[] or float[] argument arrives as.
template <class T>
struct List {
  const T* data;
  int64_t size;

  const T& operator[](int64_t index) const { return data[index]; }
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
};

// Up to Max views in a fixed array, to be passed to a GPU kernel by value.
template <class T, int N, int Max>
struct ViewPack {
  View<T, N> item[Max];
  int64_t size;

  OPSMITH_HOST_DEVICE const View<T, N>& operator[](int64_t index) const { return item[index]; }
};

// A list of tensors, in host memory: what an operator's Tensor[] argument arrives as.
template <class T, int N>
struct ViewList {
  const View<T, N>* data;
  int64_t size;

  const View<T, N>& operator[](int64_t index) const { return data[index]; }
  const View<T, N>* begin() const { return data; }
  const View<T, N>* end() const { return data + size; }

  // The same views in a ViewPack. Throws when there are more than Max. A GPU kernel's parameters are 4 KB at most, and
  // a View<T, 4> takes 72 bytes of them.
  template <int Max>
  ViewPack<T, N, Max> pack() const {
    if (size > Max) fail("this kernel takes at most ", Max, " tensors in a list, got ", size);
    ViewPack<T, N, Max> packed{};
    for (int64_t index = 0; index < size; ++index) packed.item[index] = data[index];
    packed.size = size;
    return packed;
  }
};

}  // namespace opsmith
