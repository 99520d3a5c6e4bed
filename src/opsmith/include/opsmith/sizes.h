// Sizes and strides in a generated binding: how they are put together, computed and compared.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "arithmetic.h"
#include "error.h"
#include "held.h"

namespace opsmith {
namespace binding {

// The sizes or strides of a tensor, or of a variadic group: up to 64, which is also what PyTorch's reductions take.
struct Sizes {
  static constexpr int64_t capacity = 64;

  int64_t count = 0;
  int64_t item[capacity];  // the first `count` of them

  Sizes() {}  // not = default: the items must stay as they are, and clearing 64 of them takes longer than all else

  void append(int64_t size) {
    if (count == capacity) give_up("a tensor has more than 64 dimensions");
    item[count++] = size;
  }
  void append(const Sizes& sizes) {
    for (int64_t index = 0; index < sizes.count; ++index) append(sizes.item[index]);
  }
};

// The sizes of an output, from single ones and those of variadic groups.
template <class... Parts>
Sizes join(const Parts&... parts) {
  Sizes sizes;
  (sizes.append(parts), ...);
  return sizes;
}

// The sizes of an output that is not needed.
[[gnu::noinline]] inline Sizes zeros(int64_t rank) {
  Sizes sizes;
  while (sizes.count < rank) sizes.append(int64_t{0});
  return sizes;
}

// The sizes of a tensor's dimensions from `begin` on, without the last `behind`: those of its variadic group.
inline Sizes group_sizes(const Held& tensor, int64_t begin, int64_t behind) {
  Sizes sizes;
  for (int64_t dim = begin; dim < tensor.rank - behind; ++dim) sizes.append(tensor.sizes[dim]);
  return sizes;
}

inline bool has_group(const Held& tensor, int64_t begin, int64_t behind, const Sizes& expected) {
  if (tensor.rank - behind - begin != expected.count) return false;
  for (int64_t index = 0; index < expected.count; ++index) {
    if (tensor.sizes[begin + index] != expected.item[index]) return false;
  }
  return true;
}

// Whether PyTorch's operators would take the two together: from the last dimension on, sizes are equal or one of
// them 1.
[[gnu::cold, gnu::noinline]] inline bool can_broadcast(const Sizes& a, const Sizes& b) {
  for (int64_t index = 1; index <= min_of(a.count, b.count); ++index) {
    const int64_t one = a.item[a.count - index], other = b.item[b.count - index];
    if (one != other && one != 1 && other != 1) return false;
  }
  return true;
}

[[gnu::noinline]] inline Sizes strides_of(const Held& tensor) {
  Sizes strides;
  for (int64_t dim = 0; dim < tensor.rank; ++dim) strides.append(tensor.strides[dim]);
  return strides;
}

inline int64_t next_stride(int64_t stride, int64_t size) {
  int64_t next;
  if (__builtin_mul_overflow(stride, size, &next)) give_up("a tensor's strides do not fit into 64 bits");
  return next;
}

inline Sizes contiguous_strides(const int64_t* sizes, int64_t rank) {
  Sizes strides;
  if (rank > Sizes::capacity) give_up("a tensor has more than 64 dimensions");
  strides.count = rank;
  int64_t next = 1;
  for (int64_t dim = rank; dim-- > 0;) {
    strides.item[dim] = next;
    if (dim > 0) next = next_stride(next, max_of(sizes[dim], 1));
  }
  return strides;
}
inline Sizes contiguous_strides(const Sizes& sizes) { return contiguous_strides(sizes.item, sizes.count); }

// Strides for `order`, innermost dimension first.
[[gnu::noinline]] inline Sizes strides_in_order(const Sizes& sizes, std::initializer_list<int> order) {
  Sizes strides;
  strides.count = sizes.count;
  int64_t next = 1;
  for (int dim : order) {
    strides.item[dim] = next;
    // Unlike row-major strides, torch's of channels_last become 0 behind an empty dimension. Dimension 0 is the last of
    // every order, and nothing depends on its size.
    if (dim > 0) next = next_stride(next, sizes.item[dim]);
  }
  return strides;
}

[[gnu::noinline]] inline bool has_strides_in_order(const Held& tensor, std::initializer_list<int> order) {
  int64_t next = 1;
  for (int dim : order) {
    if (tensor.sizes[dim] == 1) continue;
    if (tensor.strides[dim] != next) return false;
    next *= tensor.sizes[dim];
  }
  return true;
}

// The strides of an output that keeps the memory format of an input: channels_last where the input is so, else
// row-major.
[[gnu::noinline]] inline Sizes strides_like(const Held& input, const Sizes& sizes) {
  if (!input.is_contiguous()) {
    if (sizes.count == 4 && has_strides_in_order(input, {1, 3, 2, 0})) return strides_in_order(sizes, {1, 3, 2, 0});
    if (sizes.count == 5 && has_strides_in_order(input, {1, 4, 3, 2, 0})) {
      return strides_in_order(sizes, {1, 4, 3, 2, 0});
    }
  }
  return contiguous_strides(sizes);
}

}  // namespace binding
}  // namespace opsmith
