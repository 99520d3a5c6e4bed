// Batches of boxes on a GPU, read as vectors where that can be done.
#pragma once

#include "pairwise.h"

namespace opsmith::ops::box_pairs {
namespace {

template <class C>
struct Boxes {
  View<const C, 3> numbers;  // [batch, box, 4]
  Format format;
  bool is_vector;  // a box is one aligned vector

  Boxes(const View<const C, 3>& boxes, Format format)
      : numbers(boxes),
        format(format),
        is_vector(boxes.stride[2] == 1 && boxes.stride[0] % 4 == 0 && boxes.stride[1] % 4 == 0 &&
                  is_aligned(boxes.data, 4 * sizeof(C))) {}

  __host__ __device__ int64_t batches() const { return numbers.size[0]; }
  __host__ __device__ int64_t count() const { return numbers.size[1]; }

  __device__ Box<C> operator()(int64_t batch, int64_t k) const {
    const C* const from = numbers.data + batch * numbers.stride[0] + k * numbers.stride[1];
    Vector<C, 4> four;
    if (is_vector) {
      four = *reinterpret_cast<const Vector<C, 4>*>(from);
    } else {
#pragma unroll
      for (int n = 0; n < 4; ++n) four.item[n] = from[n * numbers.stride[2]];
    }
    return Box<C>::of(format, four.item[0], four.item[1], four.item[2], four.item[3]);
  }
};

}  // namespace
}  // namespace opsmith::ops::box_pairs
