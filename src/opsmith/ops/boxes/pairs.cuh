// Batches of boxes on a GPU, read as vectors where that can be done.
#pragma once

#include "pairwise.h"
#include "vectors.cuh"

namespace opsmith::ops::box_pairs {
namespace {

template <class C>
__device__ Box<C> box_of(Format format, const Vector<C, 4>& four) {
  return Box<C>::of(format, four.item[0], four.item[1], four.item[2], four.item[3]);
}

template <class C>
struct Boxes {
  View<const C, 3> numbers;  // [batch, box, 4]
  Format format;
  bool is_vector;  // a box is one aligned vector

  Boxes(const View<const C, 3>& boxes, Format format) : numbers(boxes), format(format), is_vector(are_vectors(boxes)) {}

  __host__ __device__ int64_t batches() const { return numbers.size[0]; }
  __host__ __device__ int64_t count() const { return numbers.size[1]; }

  // Whether all boxes, of all batches, are vectors one after the other.
  bool is_dense() const { return is_vector && numbers.is_contiguous(); }

  __device__ const C* address(int64_t batch, int64_t k) const {
    return numbers.data + batch * numbers.stride[0] + k * numbers.stride[1];
  }
  __device__ Box<C> read(const C* from) const { return box_of(format, read_four(from, numbers.stride[2], is_vector)); }
  __device__ Box<C> operator()(int64_t batch, int64_t k) const { return read(address(batch, k)); }
};

}  // namespace
}  // namespace opsmith::ops::box_pairs
