// What mlp_gpu.cpp, which a host compiler reads, launches of the kernels in mlp_small_*.cu and mlp_large.cu.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::mlp {

// What a small perceptron is made of: contiguous, and below 2^31 elements each. Sizes and pointers alone, because the
// time of a small kernel goes into loads one after the other, and those of its parameters are among them.
struct Sizes {
  int batch;
  int features;
  int units;
  int outputs;
};

template <class T>
struct Layers {
  const T* input;    // [B F]
  const T* weight1;  // [H F]
  const T* bias1;
  const T* weight2;  // [O H]
  const T* bias2;
};

// A gradient that is not needed is a null pointer.
template <class T>
struct Gradients {
  T* input;
  T* weight1;
  T* bias1;
  T* weight2;
  T* bias2;
};

// hidden = relu(input weight1^T + bias1), output = hidden weight2^T + bias2, in one kernel.
template <class T>
void forward_small(const Sizes& sizes, const Layers<T>& layers, T* hidden, T* output, void* stream);

// All gradients in one kernel. It reads neither bias. Of the tensors only grad_output may lie anyhow: the gradient of a
// sum or a mean is one number with strides of 0.
template <class T>
void backward_small(const Sizes& sizes, View<const T, 2> grad_output, const Layers<T>& layers, const T* hidden,
                    const Gradients<T>& to, void* stream);

// Rows whose sums are one row of `partial`, below.
constexpr int64_t slab_rows = 128;

// grad_hidden = 0 where hidden <= 0, in place, and partial[k] = the sums of the columns of both matrices over the rows
// of slab k: [slabs, H + O]. grad_hidden is contiguous.
template <class T>
void mask_and_sum(View<T, 2> grad_hidden, View<const T, 2> hidden, View<const T, 2> grad_output,
                  View<compute_t<T>, 2> partial, void* stream);

// The sums over all slabs: grad_bias1 from the first H columns, grad_bias2 from the others.
template <class T>
void sum_slabs(View<const compute_t<T>, 2> partial, View<T, 1> grad_bias1, View<T, 1> grad_bias2, void* stream);

}  // namespace opsmith::ops::mlp
