// A box's four numbers on a GPU, one vector where they lie so.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::box_pairs {
namespace {

// Whether each box of a tensor [..., 4] is one aligned vector.
template <class T, int dims>
bool are_vectors(const View<T, dims>& boxes) {
  bool are_aligned = boxes.stride[dims - 1] == 1 && is_aligned(boxes.data, 4 * sizeof(T));
  for (int dim = 0; dim < dims - 1; ++dim) {
    are_aligned = are_aligned && (boxes.size[dim] == 1 || boxes.stride[dim] % 4 == 0);
  }
  return are_aligned;
}

// The four numbers from an address on, `stride` apart.
template <class T>
__device__ Vector<std::remove_const_t<T>, 4> read_four(T* from, int64_t stride, bool is_vector) {
  using Four = Vector<std::remove_const_t<T>, 4>;
  Four four;
  if (is_vector) {
    four = *reinterpret_cast<const Four*>(from);
  } else {
#pragma unroll
    for (int n = 0; n < 4; ++n) four.item[n] = from[n * stride];
  }
  return four;
}

}  // namespace
}  // namespace opsmith::ops::box_pairs
