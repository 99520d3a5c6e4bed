// bias_act forward of contiguous tensors of fewer than 2^31 vectors: a vector a thread, in the order of memory.
//
// A thread that has one vector lives for its load and its store, and what it works out before the load is time in which
// it asks memory for nothing. So these kernels have no strides and no loop, and load the bias after the vector.
#pragma once

#include "shares.cuh"
#include "vectors.cuh"

namespace opsmith::ops::bias_act {
namespace {

using filters::no_bias;

// Rows of one channel each, `length` vectors long, by blocks (piece, channel, sample).
template <int width, class T, class F>
__global__ void __launch_bounds__(threads)
    map_dense_rows(F f, unsigned length, View<const T, 1> b, const Vector<T, width>* __restrict__ x,
                   Vector<T, width>* __restrict__ out) {
  const unsigned column = blockIdx.x * threads + threadIdx.x;
  if (column >= length) return;
  const unsigned i = (blockIdx.z * gridDim.y + blockIdx.y) * length + column;
  const Vector<T, width> value = x[i];
  const compute_t<T> of_channel = bias_of(b, blockIdx.y);
  compute_t<T> bias[width], exact[width];
#pragma unroll
  for (int k = 0; k < width; ++k) bias[k] = of_channel;
  out[i] = apply(f, value, value, bias, exact);
}

// A matrix whose rows are all channels, `columns` vectors of them. `b` has as many, or is null.
template <int width, class T, class F>
__global__ void __launch_bounds__(threads)
    map_dense_columns(F f, unsigned vectors, unsigned columns, const Vector<T, width>* __restrict__ b,
                      const Vector<T, width>* __restrict__ x, Vector<T, width>* __restrict__ out) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i >= vectors) return;
  const Vector<T, width> value = x[i];
  compute_t<T> bias[width], exact[width];
  const Vector<T, width> of_channels = b == nullptr ? Vector<T, width>{} : b[i % columns];
#pragma unroll
  for (int k = 0; k < width; ++k) {
    bias[k] = b == nullptr ? no_bias<compute_t<T>> : static_cast<compute_t<T>>(of_channels.item[k]);
  }
  out[i] = apply(f, value, value, bias, exact);
}

}  // namespace
}  // namespace opsmith::ops::bias_act
